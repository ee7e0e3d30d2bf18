# Sourced by tests that are Python, after `root`: `folder` holds the packages of the dependency cache, `python` is the
# interpreter that they are for. Skips the test where they are not there.
folder="$("$root/cmake/deps.sh" folder python)"
if [[ ! -d $folder ]]; then
  echo "skipped: the Python packages for tests are not in the dependency cache; fetch them by cmake/deps.sh fetch python"
  exit 77
fi
python="$("$root/cmake/deps.sh" python)"
