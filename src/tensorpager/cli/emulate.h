// Prepares the environment of a program that runs on the emulated CUDA card: checks that this build has one, and sets
// the variables that describe the card and preload the libraries.
#pragma once

#include <cstdint>
#include <string>

namespace tensorpager::cli {

/// How much memory the card has for the program. In a dry run it is ample, so that nothing is out of memory before the
/// address range is exhausted: the run is to find out what the program needs.
enum class CardMemory : std::uint8_t { kOfTheCard, kAmple };

/// `card`: a named machine or a machine file with a card, as `h100-80g`; `2xh100-80g` means two of them. Throws
/// InvalidArgument.
void export_emulation(const std::string& card, CardMemory memory);

/// The machine of `card`, without the number before it.
std::string machine_of_card(const std::string& card);

/// Appends `library` to LD_PRELOAD. Throws InvalidArgument if its path has a space or a colon, which separate paths in
/// LD_PRELOAD.
void add_preload(const std::string& library);

}  // namespace tensorpager::cli
