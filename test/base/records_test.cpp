#include "tensorpager/base/records.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tensorpager/base/errors.h"

namespace tensorpager::base {
namespace {

/// What went wrong when `read` was given a reader of `text`; empty if nothing.
template <typename Read>
std::string error_of(const std::string& text, Read read) {
  std::istringstream in(text);
  try {
    RecordReader reader(in, "a.file", "kind", 3);
    read(reader);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

std::string header_error(const std::string& text) {
  return error_of(text, [](RecordReader&) {});
}

TEST(RecordReader, GivesWordsFlagsAndFieldsInAnyOrder) {
  std::istringstream in("kind 3\n# a comment\n\n  item  red a=5 list=1,2,3 7 rate=2.5e3 b=text \nend");
  RecordReader reader(in, "a.file", "kind", 3);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.type(), "item");
  EXPECT_EQ(reader.text("b"), "text");
  EXPECT_TRUE(reader.flag("red"));
  EXPECT_FALSE(reader.flag("red"));
  EXPECT_EQ(reader.word_number("number", 8), 7u);
  EXPECT_EQ(reader.number("a", 6), 5u);
  EXPECT_EQ(reader.number_or("a", 6, 9), 9u);
  EXPECT_EQ(reader.positive("rate"), 2500.0);
  EXPECT_EQ(reader.numbers("list", 4), (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_TRUE(reader.numbers("none", 4).empty());
  reader.finish_record();
  EXPECT_FALSE(reader.next());
}

TEST(RecordReader, RefusesAnotherKindOrVersion) {
  for (const char* text : {"", "\n", "other 3\n", "kind\n", "kind 3 4\n",
                           "\x7f"
                           "ELF\n"}) {
    const std::string error = header_error(text);
    EXPECT_TRUE(error.starts_with("a.file:1: ")) << error;
  }
  EXPECT_EQ(header_error("kind 4\n"), "a.file:1: header: version 4; this program reads version 3");
  EXPECT_EQ(header_error("kind three\n"), "a.file:1: header: 'three' is not a whole number");
}

TEST(RecordReader, NamesLineAndField) {
  const auto first = [](auto read) {
    return [read](RecordReader& reader) {
      reader.next();
      read(reader);
      reader.finish_record();
    };
  };
  const auto ask = [](RecordReader& r) { r.number("a", 10); };
  EXPECT_EQ(error_of("kind 3\nitem\n", first(ask)), "a.file:2: a: is missing");
  EXPECT_EQ(error_of("kind 3\nitem a=\n", first(ask)), "a.file:2: a: has no value");
  EXPECT_EQ(error_of("kind 3\nitem a=-1\n", first(ask)), "a.file:2: a: '-1' is not a whole number");
  EXPECT_EQ(error_of("kind 3\nitem a=10\n", first(ask)), "a.file:2: a: '10' is not below 10");
  EXPECT_EQ(error_of("kind 3\nitem a=99999999999999999999\n", first(ask)),
            "a.file:2: a: '99999999999999999999' is not below 10");
  EXPECT_EQ(error_of("kind 3\nitem a=1 a=2\n", first(ask)), "a.file:2: 'a=2': is unknown here, or given twice");
  EXPECT_EQ(error_of("kind 3\n\nitem a=1 blue\n", first(ask)), "a.file:3: 'blue': is unknown here, or given twice");
  const auto list = [](RecordReader& r) { r.numbers("l", 4); };
  EXPECT_EQ(error_of("kind 3\nitem l=1,,2\n", first(list)), "a.file:2: l: '' is not a whole number");
  EXPECT_EQ(error_of("kind 3\nitem l=1,4\n", first(list)), "a.file:2: l: '4' is not below 4");
  const auto rate = [](RecordReader& r) { r.positive("r"); };
  for (const char* text : {"0", "-1", "nan", "inf", "1x", "1e999"})
    EXPECT_EQ(error_of(std::string("kind 3\nitem r=") + text + "\n", first(rate)),
              std::string("a.file:2: r: '") + text + "' is not a number above 0");
}

TEST(RecordReader, NoticesATruncatedFileAndOneThatGoesOn) {
  const auto read = [](RecordReader& reader) {
    while (reader.next()) reader.finish_record();
  };
  EXPECT_EQ(error_of("kind 3\nitem\nend\n\n# comment\n", read), "");
  EXPECT_EQ(error_of("kind 3\nitem\n", read), "a.file:3: end: the file ends without the record `end`: it is truncated");
  EXPECT_EQ(error_of("kind 3\nend\nitem\n", read), "a.file:3: end: a record follows the record `end`");
}

TEST(RecordReader, RefusesBinaryAndEndlessLines) {
  const auto read = [](RecordReader& reader) { reader.next(); };
  EXPECT_EQ(error_of(std::string("kind 3\nit\0em\n", 13), read), "a.file:2: line: holds a control character");
  EXPECT_EQ(error_of("kind 3\n" + std::string(3 << 20, 'x'), read), "a.file:2: line: longer than 1048574 bytes");
  const std::string longest(1048570, 'x');
  EXPECT_EQ(error_of("kind 3\n" + longest + "\nend\n", read), "");
}

TEST(Records, SayWhichFileCannotBeReadOrWritten) {
  for (const char* path : {"/nowhere/at/all", "/"}) {
    std::ifstream in;
    try {
      open_for_reading(in, path);
      FAIL() << path;
    } catch (const InvalidArgument& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(std::string(path) + ": cannot be read (")) << error.what();
    }
  }
  EXPECT_THROW(write_whole_file("/nowhere/at/all", "text"), IoError);
  EXPECT_THROW(write_whole_file("/dev/full", "text"), IoError);
}

}  // namespace
}  // namespace tensorpager::base
