"""Chromium without a window, for tests: pages from the disk, what scripts in them say, and their pictures. One process opens
all pages. It takes commands through a pipe (the DevTools protocol), so no port is open."""
import base64
import json
import os
import shutil
import subprocess

PROGRAM = shutil.which("chromium")
# The sandbox needs rights that a container seldom gives; what is opened are files that tests made. Nothing is fetched.
# Glyphs and colours are those of no particular display.
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
           "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-lcd-text",
           "--font-render-hinting=none", "--force-color-profile=srgb", "--remote-debugging-pipe"]


class Browser:
    def __init__(self, folder):
        """`folder`: where it may keep its profile and its log."""
        os.makedirs(folder)
        (read_commands, commands), (answers, write_answers) = os.pipe(), os.pipe()
        # It reads commands from descriptor 3 and writes answers to 4.
        start = ["bash", "-c", f'exec "$@" 3<&{read_commands} 4>&{write_answers}', "bash", PROGRAM, *OPTIONS,
                 f"--user-data-dir={os.path.abspath(folder)}/profile"]
        with open(f"{folder}/log", "w") as log:
            self._process = subprocess.Popen(start, pass_fds=(read_commands, write_answers), stdout=log, stderr=log)
        os.close(read_commands)
        os.close(write_answers)
        self._commands, self._answers = open(commands, "wb", buffering=0), open(answers, "rb")
        self._rest, self._calls, self._page = b"", 0, {}
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._page = {"sessionId": self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._commands.close()
        self._answers.close()

    def open(self, file, width, height, scale=1):
        """Shows the file in a window of so many CSS pixels, each of them `scale` pixels wide."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        failed = self._call("Page.navigate", url="file://" + os.path.abspath(file)).get("errorText")
        if failed:
            raise RuntimeError(f"Chromium does not open {file}: {failed}")
        self.says("""new Promise(done => document.readyState == "complete" ? done() : addEventListener("load", () => done()))
                     .then(() => document.fonts.ready).then(() => 0)""")

    def says(self, script):
        """The value of a script in the page; of a promise what it becomes."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"a script failed in Chromium: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def picture(self, x, y, width, height):
        """PNG of a part of the page, in CSS pixels."""
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        return base64.b64decode(self._call("Page.captureScreenshot", clip=clip)["data"])

    def _call(self, method, **parameters):
        self._calls += 1
        command = {"id": self._calls, "method": method, "params": parameters, **self._page}
        self._commands.write(json.dumps(command).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") != self._calls:
                continue  # an event
            if "error" in message:
                raise RuntimeError(f"Chromium refuses {method}: {message['error']['message']}")
            return message["result"]

    def _message(self):
        while b"\0" not in self._rest:
            more = self._answers.read1(1 << 20)
            if not more:
                raise RuntimeError("Chromium ended; its log lies beside its profile")
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)
