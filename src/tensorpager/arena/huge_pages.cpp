#include "tensorpager/arena/huge_pages.h"

#include <fstream>
#include <string>

namespace tensorpager::arena {

bool kernel_has_huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  return std::getline(file, modes) && modes.find("[never]") == std::string::npos;
}

}  // namespace tensorpager::arena
