#!/usr/bin/env bash
# own_model_test.sh KVLOUPE SOURCE: README's part "Your own model" as it stands there, with tiny models in the place of the
# user's. Lines that open a window are given a display without a screen and closed after some seconds. Where the dependency
# cache lacks the part python, which `./kvloupe.sh test` fetches, the lines of Python and their window are left out.
set -euo pipefail
program="$1" source="$2" python=""
packages="$("$source/cmake/deps.sh" folder python)"
if [[ -d $packages ]]; then
  python="$("$source/cmake/deps.sh" python)"
  export PYTHONPATH="$packages" HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES=""
fi
models="$source/tests/data/models"
rm -rf work && mkdir work && cd work
ln -s "$models/llama/model.gguf" my-model.gguf
ln -s "$models/qwen3" my-model
head -c 200 "$source/README.md" >notes.txt

# Blocks of the section, one a file: 1.sh, 2.python, ...
awk '/^## / { inside = $0 == "## Your own model" }
     inside && /^```/ { if (open) { open = 0 } else { open = 1; name = ++count "." (substr($0, 4) == "" ? "sh" : substr($0, 4)) } next }
     inside && open { print > name }' "$source/README.md"
blocks=(*.sh *.python)
[[ ${#blocks[@]} == 7 ]] || { echo "FAILED: README has ${#blocks[@]} blocks, not 7"; exit 1; }

run_line() {
  local line="$1" code=0
  echo "$line"
  case "$line" in
    "./kvloupe.sh capture "*)
      eval "$program ${line#./kvloupe.sh }"
      eval "$program validate ${line##* -o }"
      ;;
    "./kvloupe.sh "*.h5)
      # A window on it: still there after some seconds, then told to end.
      [[ -f ${line#./kvloupe.sh } ]] || { echo "FAILED: ${line#./kvloupe.sh } was not written"; exit 1; }
      # Its own code: that of xvfb-run may be of its cleaning up.
      xvfb-run -a bash -c 'timeout --signal=INT 8 "$@"; echo $? >window_code' - "$program" --config-dir config "${line#./kvloupe.sh }" || true
      code=$(<window_code)
      [[ $code == 124 || $code == 130 ]] || { echo "FAILED: the window ended with $code"; exit 1; }
      ;;
    "./kvloupe.sh select "* | "./kvloupe.sh compare "*) eval "KVLOUPE_PYTHON=$python $program ${line#./kvloupe.sh }" ;;
    "pip install -e ./capture/python") export PYTHONPATH="$source/capture/python${PYTHONPATH:+:$PYTHONPATH}" ;;
    *) echo "FAILED: what is this line to do?" && exit 1 ;;
  esac
}

for block in $(printf '%s\n' "${blocks[@]}" | sort -n); do
  if [[ -z $python ]] && { [[ $block == *.python ]] || grep -qE 'pip install|python\.h5' "$block"; }; then
    echo "left out, no Python with transformers: $(cat "$block")"
  elif [[ $(head -1 "$block") == "# my_methods.py" ]]; then
    cp "$block" my_methods.py
  elif [[ $block == *.python ]]; then
    {
      echo 'import transformers'
      echo 'model = transformers.AutoModelForCausalLM.from_pretrained("my-model")'
      echo 'tokenizer = transformers.AutoTokenizer.from_pretrained("my-model")'
      echo 'inputs = tokenizer(open("notes.txt").read(), return_tensors="pt")'
      cat "$block"
    } >lines.py
    "$python" lines.py
    "$program" validate python.h5
  else
    while IFS= read -r line; do run_line "$line"; done <"$block"
  fi
done
