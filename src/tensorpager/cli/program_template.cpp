#include "tensorpager/cli/program_template.h"

#include <regex>

#include "tensorpager/base/errors.h"

namespace tensorpager::cli {

ProgramTemplate::ProgramTemplate(const Program& program) : program_(program) {
  const std::regex pattern(R"(\{([A-Za-z_][A-Za-z0-9_]*)\})");
  for (const std::string& word : program)
    for (std::sregex_iterator found(word.begin(), word.end(), pattern), end; found != end; ++found) {
      if (!name_.empty() && name_ != (*found)[1])
        throw base::InvalidArgument("{" + name_ + "} and {" + (*found)[1].str() +
                                    "} in the program: write a number for one of them");
      name_ = (*found)[1];
    }
  if (name_.empty())
    throw base::InvalidArgument(
        "nothing to vary: write {batch} for the number in the program's arguments, as in `tensorpager fit --machine "
        "h100-80g -- python train.py --batch {batch}`");
}

Program ProgramTemplate::at(std::uint64_t size) const {
  const std::string mark = "{" + name_ + "}", number = std::to_string(size);
  Program words = program_;
  for (std::string& word : words)
    for (std::size_t at = 0; (at = word.find(mark, at)) != std::string::npos; at += number.size())
      word.replace(at, mark.size(), number);
  return words;
}

}  // namespace tensorpager::cli
