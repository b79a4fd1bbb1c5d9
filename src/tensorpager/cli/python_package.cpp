#include "tensorpager/cli/python_package.h"

#include "generated/install_layout.h"
#include "tensorpager/base/errors.h"

namespace tensorpager::cli {

std::filesystem::path python_package() {
  const auto prefix = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  // Site-packages of a virtual environment and of --user; of Debian's pip as root; of pip install --target.
  for (const char* site : {TENSORPAGER_SITE, TENSORPAGER_DEBIAN_SITE, "."})
    if (exists(prefix / site / "tensorpager" / "hook" / "sitecustomize.py")) return prefix / site / "tensorpager";
  throw base::InvalidArgument("the Python part is missing at " + (prefix / TENSORPAGER_SITE / "tensorpager").string() +
                              "; run `make build` or `pip install .`");
}

}  // namespace tensorpager::cli
