// A model's chat template, rendered by llama.cpp's Jinja engine.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::capture {

struct Message {
  std::string role;  // system, user, assistant
  std::string content;
};

// What a template that prints the day reads. The fixed one is 26 July 2024, which Llama 3's template
// takes where it cannot ask for another: a task's prompt is then the same on every day.
enum class TemplateDay { Today, Fixed };

struct TemplateInput {
  std::vector<Message> messages;
  std::string bos, eos;  // texts of these tokens
  bool add_generation_prompt = true;
  TemplateDay day = TemplateDay::Today;
};

// A stretch of the rendered text.
struct RenderedPart {
  bool is_content = false;  // of a message, not of the template; contents that adjoin are one part
  std::string text;
};

// Throws Error{Input}, with --raw as the way out, for a template that fails, loops for ever, grows without bound or ends
// the engine: it runs in a process of its own, within limits.
std::vector<RenderedPart> render_chat_template(const std::string& source,
                                               const TemplateInput& input);

}  // namespace kvloupe::capture
