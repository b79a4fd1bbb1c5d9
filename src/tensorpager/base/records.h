// The format of trace, plan and machine files: text, one record a line. A record is words separated by spaces: its
// type, then plain words and `key=value` fields in any order. The first line is `KIND VERSION`, the last `end`, to
// notice truncation. Empty lines and lines with # at the begin are skipped.
//
// Reading is strict and takes memory in proportion to the file: every error is an InvalidArgument with the text
// `FILE:LINE: FIELD: what is wrong`.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace tensorpager::base {

class RecordReader {
 public:
  /// Reads the first line. `path` is for messages; `in` must outlive this.
  RecordReader(std::istream& in, std::string path, std::string_view kind, std::uint64_t version);

  /// Reads the next record. Returns false at the record `end`. Throws if the file ends without one or continues after
  /// it.
  bool next();
  std::string_view type() const { return words_.front(); }

  /// The next word that is not `key=value`; throws if there is none. `field` is its name in messages.
  std::string_view word(std::string_view field);
  std::uint64_t word_number(std::string_view field, std::uint64_t limit);
  /// Whether the record has the bare word `name`.
  bool flag(std::string_view name);

  bool has(std::string_view key) const;
  std::string_view text(std::string_view key);  // throws if the key is missing
  /// A whole number below `limit`.
  std::uint64_t number(std::string_view key, std::uint64_t limit);
  std::uint64_t number_or(std::string_view key, std::uint64_t limit, std::uint64_t otherwise);
  /// A number above 0, as `12e9`.
  double positive(std::string_view key);
  /// Whole numbers below `limit`, separated by commas; empty if the key is missing.
  std::vector<std::uint32_t> numbers(std::string_view key, std::uint64_t limit);

  /// Throws if a word or field of this record was not read.
  void finish_record();

  [[noreturn]] void fail(std::string_view field, const std::string& what) const;

 private:
  bool read_line();
  std::uint64_t parse_number(std::string_view field, std::string_view text, std::uint64_t limit) const;

  std::istream& in_;
  std::string path_;
  std::uint64_t line_number_ = 0;
  std::vector<char> line_;
  std::vector<std::string_view> words_;  // of the line; emptied once read
};

/// The first line of a file of `kind`, with its end of line.
std::string header_line(std::string_view kind, std::uint64_t version);

/// Opens `path` for reading, or throws.
void open_for_reading(std::ifstream& in, const std::string& path);
/// Writes `contents` to `path`. Throws IoError.
void write_whole_file(const std::string& path, std::string_view contents);

}  // namespace tensorpager::base
