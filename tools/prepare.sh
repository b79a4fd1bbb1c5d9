#!/usr/bin/env bash
# Makes all that the build and the tests need, without root: Debian packages in .deps, Python packages in .venv. Quick when nothing changed.
#
#   PYTHON=python3 tools/prepare.sh
set -euo pipefail
cd -P "$(dirname "$0")/.."
python=${PYTHON:-python3}

missing=()
for command in g++ cmake ninja "$python"; do
  command -v "$command" >/dev/null || missing+=("$command")
done
if ((${#missing[@]})); then
  echo "not found: ${missing[*]}; on Debian: apt-get install g++ cmake ninja-build python3 (as root)" >&2
  exit 1
fi

tools/debian_package.sh libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev

# Debian's Python has its headers in a package of their own; other Pythons bring them. CMake finds either by .deps/python_headers.
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
if [[ ! -e $headers/Python.h ]]; then
  tools/debian_package.sh "libpython$version-dev"
  headers=$PWD/.deps/usr/include/python$version
  # pyconfig.h there includes <ARCHITECTURE/pythonX.Y/pyconfig.h>: make that resolve from the same directory.
  for architecture in .deps/usr/include/*-linux-gnu*; do
    ln -sfn "../$(basename "$architecture")" "$headers/$(basename "$architecture")"
  done
fi
mkdir -p .deps
ln -sfn "$headers" .deps/python_headers

# The path is in the stamp because a virtual environment does not work from another place than it was made in.
stamp=$PWD/.venv/tensorpager_requirements
wanted="$PWD $version $(sha256sum tools/requirements.txt)"
if [[ -e $stamp && $(<"$stamp") == "$wanted" ]]; then
  exit 0
fi

# One that is from elsewhere, of another version, or was interrupted before it had pip, is made anew.
whose='import pip, sys; print("%s %d.%d" % (sys.prefix, *sys.version_info[:2]))'
if [[ $(.venv/bin/python -c "$whose" 2>/dev/null) != "$PWD/.venv $version" ]]; then
  echo "python: making .venv with $(command -v "$python") $version"
  rm -rf .venv
  if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv .venv
  else
    # Debian without python3-venv: pip starts from the wheel that Debian ships, and installs itself.
    tools/debian_package.sh python3-pip-whl
    "$python" -m venv --without-pip .venv
    wheels=(.deps/usr/share/python-wheels/pip-*.whl /usr/share/python-wheels/pip-*.whl)
    for wheel in "${wheels[@]}"; do
      [[ -e $wheel ]] && break
    done
    .venv/bin/python "$wheel/pip" install --quiet pip
  fi
fi
echo "python: installing tools/requirements.txt into .venv (torch and its libraries: about 3 GB the first time)"
.venv/bin/python -m pip install --disable-pip-version-check --progress-bar on -r tools/requirements.txt
echo "$wanted" >"$stamp"
