#include "tensorpager/pager/shortage.h"

#include <utility>

namespace tensorpager::pager {
namespace {

thread_local std::unique_ptr<std::string> t_shortage;

}  // namespace

void note_shortage(std::string text) { t_shortage = std::make_unique<std::string>(std::move(text)); }
std::unique_ptr<std::string> take_shortage() { return std::move(t_shortage); }

}  // namespace tensorpager::pager
