// What starts a program on the emulated CUDA card: checks that this build has one, and writes what the card is like and
// which libraries come first into the environment.
#pragma once

#include <cstdint>
#include <string>

namespace tensorpager::cli {

/// What the program finds on the card. In a dry run nothing is out of memory before the address range is: what the
/// program needs is what the run is to find out.
enum class CardMemory : std::uint8_t { kOfTheCard, kAmple };

/// `card`: a named machine or a machine file with a card, as `h100-80g`; `2xh100-80g` is two of them. Throws
/// InvalidArgument.
void export_emulation(const std::string& card, CardMemory memory);

/// The machine of `card`, without the number before it.
std::string machine_of_card(const std::string& card);

/// Puts `library` behind what LD_PRELOAD has already; throws InvalidArgument where its path has a space or a colon,
/// which LD_PRELOAD takes for the end of a path.
void add_preload(const std::string& library);

}  // namespace tensorpager::cli
