#!/usr/bin/env python3
"""wheel.py PACKAGE OUT    the Python package of the folder PACKAGE as a wheel in the folder OUT

An installed KVLoupe comes with it: pip builds in the folder that it installs from, which there is root's. All is read from
pyproject.toml. Written without setuptools, which would have to be fetched."""
import base64
import fnmatch
import hashlib
import re
import sys
import zipfile
from pathlib import Path

try:
    import tomllib
except ImportError:  # before Python 3.11
    from pip._vendor import tomli as tomllib


def metadata_of(project, version, readme):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}",
             f"Requires-Python: {project['requires-python']}", "Description-Content-Type: text/markdown"]
    lines += [f"Requires-Dist: {needed}" for needed in project["dependencies"]]
    for extra, needs in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"] + [f'Requires-Dist: {needed} ; extra == "{extra}"' for needed in needs]
    return "\n".join(lines) + "\n\n" + readme


def sources_of(package, setuptools):
    """Of each package its modules, and the files that go with them."""
    for name in setuptools["packages"]:
        patterns = ["*.py"] + setuptools.get("package-data", {}).get(name, [])
        for file in sorted((package / name.replace(".", "/")).iterdir()):
            if any(fnmatch.fnmatch(file.name, pattern) for pattern in patterns):
                yield file.relative_to(package).as_posix(), file.read_bytes()


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def main():
    package, out = Path(sys.argv[1]), Path(sys.argv[2])
    described = tomllib.loads((package / "pyproject.toml").read_text())
    project = described["project"]
    version = re.search(r'^__version__ = "(.+)"', (package / "kvloupe/version.py").read_text(), re.M)[1]
    stem = f"{project['name']}-{version}"
    info = f"{stem}.dist-info"
    files = dict(sources_of(package, described["tool"]["setuptools"]))
    files[f"{info}/METADATA"] = metadata_of(project, version, (package / project["readme"]).read_text()).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: kvloupe\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(record_line(name, data) for name, data in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.whl"):
        old.unlink()
    with zipfile.ZipFile(out / f"{stem}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980, so that the same sources make the same wheel
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


if __name__ == "__main__":
    main()
