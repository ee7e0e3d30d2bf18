# The parts of the dependency cache that are folders for PYTHONPATH; read by deps.sh.
# shellcheck shell=bash

# The Python that the pins are for.
deps_python_311() {
  local candidate
  for candidate in python3.11 python3 /usr/bin/python3; do
    if [[ $("$candidate" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null) == "3 11" ]]; then
      echo "$candidate"
      return
    fi
  done
  deps_fail "no Python 3.11 found; the packages that the tests of capture/python run with are pinned for it; install python3.11"
}

# A folder for PYTHONPATH, in which torch runs on the libraries of the program. After torch.
deps_fill_python() {
  local work="$1" out="$2" torch wheel
  torch="$(deps_folder torch)"
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_python[@]}")"
  for wheel in "$work"/wheels/*.whl; do unzip -q -o "$wheel" -d "$out"; done
  if [[ -d $torch/python ]]; then
    cp --recursive --link "$torch/python/." "$out/"
  else
    # The folder was filled before it kept these files.
    deps_wheels "$work/torch" "$(deps_pins torch)"
    deps_torch_python "$work"/torch/torch-*.whl "$out"
  fi
  ln -s "$torch/nvidia" "$out/nvidia"
  # torch.compile builds its kernels against them.
  ln -s "$torch/torch/include" "$out/torch/include"
  "$deps_root/cmake/python/stubs.sh" "$out/torch/lib" "$torch/torch/lib"
  CUDA_VISIBLE_DEVICES="" PYTHONPATH="$out" "$(deps_python_311)" -c 'import torch, h5py, transformers.models.llama.modeling_llama' >&2 ||
    deps_fail "the Python packages for tests do not load; Python's message is above; report this"
}

# A folder for PYTHONPATH.
deps_fill_book() {
  local work="$1" out="$2" wheel
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_book[@]}")"
  for wheel in "$work"/wheels/*.whl; do unzip -q -o "$wheel" -d "$out"; done
  PYTHONPATH="$out" "$(deps_python_311)" -m mkdocs --version >/dev/null ||
    deps_fail "the generator of the book does not load; Python's message is above; report this"
}

# A folder for PYTHONPATH.
deps_fill_arrays() {
  local work="$1" out="$2" wheel
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_arrays[@]}")"
  for wheel in "$work"/wheels/*.whl; do unzip -q -o "$wheel" -d "$out"; done
  PYTHONPATH="$out" "$(deps_python_311)" -c 'import h5py, numpy, safetensors' >&2 ||
    deps_fail "the Python packages that read arrays do not load; Python's message is above; report this"
}

# site-packages in it is a folder for PYTHONPATH, after that of the part python: of modules in folders of another name dill
# saves all that they hold.
deps_fill_eval() {
  local work="$1" out="$2/site-packages" wheel
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_eval[@]}")"
  for wheel in "$work"/wheels/*.whl; do unzip -q -o "$wheel" -d "$out"; done
  rm -rf "$out"/pandas/tests "$out"/pyarrow/tests
  [[ -d $out/lm_eval/tasks/ruler && -d $out/datasets && -d $out/wonderwords ]]
}

# A folder for PYTHONPATH, after those of the parts python and eval. What no task runs stays out.
deps_fill_ray() {
  local work="$1" out="$2" wheel
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_ray[@]}")"
  for wheel in "$work"/wheels/*.whl; do unzip -q -o "$wheel" -d "$out"; done
  rm -rf "$out"/ray/jars "$out"/ray/rllib "$out"/ray/dashboard/client
  [[ -f $out/ray/_raylet.so && -x $out/ray/core/src/ray/raylet/raylet ]]
}
