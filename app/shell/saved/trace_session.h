// T.h5.session.json: what the user keeps about one trace, beside it, so that it goes along with it; in the
// state folder where that cannot be written. Each kind of thing has a member of its own (notes_file.h,
// run_marks_file.h); what a version does not know stays.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <functional>
#include <vector>

namespace kvloupe::shell {

// Where it is written now.
std::filesystem::path session_path(const std::filesystem::path& trace);
// The files that are there, the one beside the trace first. Throws Error{Input}: one is none of such.
std::vector<nlohmann::ordered_json> read_sessions(const std::filesystem::path& trace);
// Changes what the file has by now, from any thread and beside other windows. Throws as read_sessions(),
// and leaves the file as it is then.
void change_session(const std::filesystem::path& trace,
                    const std::function<void(nlohmann::ordered_json&)>& change);

}  // namespace kvloupe::shell
