// What the window asks `kvloupe capture` for, as a value: the words of that command are made of it
// alone, those that run and those that are copied.
#pragma once

#include "core/device/default_device.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

enum class PromptKind { Text, TextFile, Chat, ChatFile, Task };

struct ChatMessage {
  std::string role, content;
  bool operator==(const ChatMessage&) const = default;
};

struct CaptureSpan {
  std::string name, text;
  bool operator==(const CaptureSpan&) const = default;
};

struct CaptureRequest {
  std::string model;
  PromptKind kind = PromptKind::Text;
  std::string text;  // of the kind Text
  std::string file;  // of TextFile and ChatFile
  std::string task;  // of Task: its SPEC
  std::vector<ChatMessage> chat = {{"user", ""}};
  bool raw = false;
  bool special = false;  // raw, and special tokens in a text that is typed are tokens
  std::vector<CaptureSpan> spans;
  int chunk_size = 128;
  std::string layers;  // as --layers takes them: "0-5", "3", "0-2,7"; "all" or empty: all
  std::vector<std::string> methods;
  std::string closed_loop;  // SPEC; empty: open loop
  bool drift = false;
  int max_new_tokens = 0;
  std::string device = device::kDefault;
  bool force = false;
  std::string output;

  bool operator==(const CaptureRequest&) const = default;
};

// "capture", ...: the words of the command line.
std::vector<std::string> capture_arguments(const CaptureRequest& request);
// What the command then reads from its standard input; mostly nothing.
std::string capture_input(const CaptureRequest& request);
// The line for a shell.
std::string capture_command_text(const CaptureRequest& request);

// The first thing that is missing or wrong, as a sentence; empty: it can be started. What only the
// model or the disk can tell is not asked here.
std::string problem_of(const CaptureRequest& request);

// How often a span's text stands in the prompt, where that is typed; no place reaches into another.
int occurrences(const CaptureRequest& request, const std::string& text);
// The model that a file or folder means: a folder for its config.json; "" where it is none.
std::string model_of_path(const std::string& path);
// Where the trace of this name grows: beside the file that a link leads to.
std::string part_of(const std::string& output);
// A file in the folder that is not there yet: capture.h5, capture-2.h5 and so on.
std::string unused_output(const std::string& folder);

}  // namespace kvloupe::shell
