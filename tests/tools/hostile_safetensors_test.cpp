#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"
#include "tools/cases/case.h"
#include "tools/cases/safetensors.h"

namespace fla::cases {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;
using testing::TemporaryFolder;

std::string with_length(std::uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), 8) + rest;
}

std::string file_of(const std::string& header, std::size_t data) {
  return with_length(header.size(), header + std::string(data, '\0'));
}

/// A sound case of kda, B=1 T=2 H=1 K=V=2, as a header whose offsets are counted last; `change` breaks it.
std::string broken_case(const std::function<void(Json&)>& change, std::size_t more_data = 0) {
  Json header{{"__metadata__", {{"op", "kda"}}}};
  std::size_t end = 0;
  for (const char* name : {"q", "k", "v", "g", "beta"}) {
    Json shape = {1, 2, 1, 2};
    if (std::string(name) == "beta") shape.erase(3);
    const std::size_t begin = end;
    end += std::string(name) == "beta" ? 8 : 16;
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, end}}};
  }
  change(header);
  return file_of(header.dump(), end + more_data);
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

struct Defect {
  std::string name, bytes, line;  ///< the line without the file's name
};

void PrintTo(const Defect& defect, std::ostream* out) { *out << defect.name; }

std::vector<Defect> defects() {
  const std::string good = broken_case([](Json&) {});
  return {
      {"EmptyFile", "", "is truncated: 0 bytes, the header's length alone takes 8"},
      {"SevenBytes", "1234567", "is truncated: 7 bytes, the header's length alone takes 8"},
      {"HeaderLongerThanTheFile", with_length(100, "{}"), "its header claims 100 bytes, the file has 2 left"},
      {"HeaderLengthAllOnes", with_length(~std::uint64_t{0}, "{}"),
       "its header claims 18446744073709551615 bytes, the format allows 100000000"},
      {"HeaderLengthZero", with_length(0, ""), "the header is not JSON, which shows at its byte 1"},
      {"NotJson", file_of("{\"q\": oops}", 0), "the header is not JSON, which shows at its byte 7"},
      {"NotUtf8", file_of("{\"\xff\": 1}", 0), "the header is not JSON, which shows at its byte 3"},
      {"HeaderIsAList", file_of("[]", 0), "the header must be a JSON object"},
      {"NestedTooDeeply", file_of(std::string(100'000, '['), 0), "the header is nested too deeply"},
      {"TensorTwice",
       file_of(
           R"({"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
           4),
       "the header has 'q' twice"},
      {"FieldTwice", file_of(R"({"q":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}})", 4),
       "the header has 'dtype' twice"},
      {"DescriptionIsANumber", file_of(R"({"q":1})", 0), "tensor 'q': its description must be a JSON object"},
      {"MetadataIsAList", file_of(R"({"__metadata__":[]})", 0), "__metadata__ must be a JSON object"},
      {"MetadataIsANumber", file_of(R"({"__metadata__":{"scale":1}})", 0),
       "__metadata__ 'scale' must be a string"},
      {"NoDtype", broken_case([](Json& h) { h["q"].erase("dtype"); }), "tensor 'q': has no dtype"},
      {"NoShape", broken_case([](Json& h) { h["q"].erase("shape"); }), "tensor 'q': has no shape"},
      {"NoOffsets", broken_case([](Json& h) { h["q"].erase("data_offsets"); }),
       "tensor 'q': has no data_offsets"},
      {"ShapeIsText", broken_case([](Json& h) { h["q"]["shape"] = "1x2"; }),
       "tensor 'q': shape must be a list"},
      {"OneOffset", broken_case([](Json& h) { h["q"]["data_offsets"] = {0}; }),
       "tensor 'q': data_offsets must be two numbers, got [0]"},
      {"NegativeSize", broken_case([](Json& h) { h["q"]["shape"][1] = -2; }),
       "tensor 'q': shape must hold whole numbers from 0 to 2^62, got -2"},
      {"FractionalSize", broken_case([](Json& h) { h["q"]["shape"][1] = 2.5; }),
       "tensor 'q': shape must hold whole numbers from 0 to 2^62, got 2.5"},
      {"NumberThatNoDoubleHolds",
       file_of(R"({"q":{"dtype":"F32","shape":[1E9704],"data_offsets":[0,4]}})", 4),
       "the header has a number that is too large for a double"},
      {"NumberInAnUnknownField",
       file_of(R"({"q":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":-1e999}})", 4),
       "the header has a number that is too large for a double"},
      {"OffsetBeyondAWord",
       file_of(R"({"q":{"dtype":"F32","shape":[1],"data_offsets":[0,36893488147419103232]}})", 4),
       "tensor 'q': data_offsets must hold whole numbers from 0 to 2^62, got 3.6893488147419103e+19"},
      {"SizesOverflow", broken_case([](Json& h) {
         h["q"]["shape"] = {1LL << 32, 1LL << 32, 1, 2};
       }),
       "tensor 'q': shape [4294967296, 4294967296, 1, 2] of F32 overflows"},
      {"SizesWrapAroundToTheRightBytes", broken_case([](Json& h) {
         h["q"]["shape"] = {1LL << 31, 1LL << 31, 4, 1};
       }),
       "tensor 'q': shape [2147483648, 2147483648, 4, 1] of F32 overflows"},
      {"OffsetsOutOfRange", broken_case([](Json& h) {
         h["beta"]["data_offsets"] = {64, 72}, h["beta"]["shape"] = {1, 2, 1};
         h["g"]["data_offsets"] = {1000, 1016};
       }),
       "tensor 'g': ends at byte 1016 of the data, which has 72: the file is truncated or its header lies"},
      {"OffsetsFall", broken_case([](Json& h) {
         h["q"]["data_offsets"] = {16, 0};
       }),
       "tensor 'q': data_offsets must not fall, got [16,0]"},
      {"OffsetsOverlap", broken_case([](Json& h) {
         h["k"]["data_offsets"] = {8, 24};
       }),
       "tensor 'k': overlaps tensor 'q'"},
      {"SameBytesTwice", broken_case([](Json& h) {
         h["k"]["data_offsets"] = {0, 16};
       }),
       "tensor 'q': overlaps tensor 'k'"},
      {"Hole", broken_case([](Json& h) { h.erase("k"); }),
       "tensor 'v': begins at byte 32 of the data, after a hole from byte 16"},
      {"BytesOfNoTensor", broken_case([](Json&) {}, 3), "3 bytes of data belong to no tensor"},
      {"Truncated", good.substr(0, good.size() - 1),
       "tensor 'beta': ends at byte 72 of the data, which has 71: the file is truncated or its header lies"},
      {"ShapeAndBytesDisagree", broken_case([](Json& h) {
         h["q"]["shape"] = {1, 2, 1, 3};
       }),
       "tensor 'q': shape [1, 2, 1, 3] of F32 takes 24 bytes, data_offsets give it 16"},
      {"DtypeOfOthers", broken_case([](Json& h) {
         h["q"]["dtype"] = "F64", h["q"]["shape"] = {1, 2, 1, 1};
       }),
       "tensor 'q': dtype must be BF16, F16, F32, I32 or I64, got F64"},
      {"UnknownDtype", broken_case([](Json& h) { h["q"]["dtype"] = "X3"; }),
       "tensor 'q': dtype must be BF16, F16, F32, I32 or I64, got X3"},
      {"TooManyDimensions", broken_case([](Json& h) { h["q"]["shape"] = {1, 1, 2, 1, 1, 2}; }),
       "tensor 'q': must have at most 5 dimensions, got 6"},
      {"DtypeThatKdaDoesNotTake", broken_case([](Json& h) { h["q"]["dtype"] = "I32"; }),
       "kda: q: expected dtype bf16 or f16 or f32, got i32"},
      {"ShapeThatKdaDoesNotTake", broken_case([](Json& h) {
         h["k"]["shape"] = {1, 1, 2, 2};
       }),
       "kda: k: expected shape [B=1, T=2, H=1, K=2], got [1, 1, 2, 2]"},
      {"ArgumentMissing", broken_case([](Json& h) { h["kk"] = h["k"], h.erase("k"); }),
       "kda: k: expected a tensor of shape [B=1, T=2, H=1, K=2], got none"},
      {"OtherOp", broken_case([](Json& h) { h["__metadata__"]["op"] = "gla"; }),
       "expected a case of kda, got one of 'gla'"},
      {"FlagThatIsNone", broken_case([](Json& h) { h["__metadata__"]["safe_gate"] = "perhaps"; }),
       "safe_gate: expected 0 or 1, got 'perhaps'"},
      {"NumberThatIsNone", broken_case([](Json& h) { h["__metadata__"]["scale"] = "big"; }),
       "scale: expected a number, got 'big'"},
      {"NameWithoutEnd", broken_case([](Json& h) { h[std::string(5000, 'a')] = 1; }),
       "tensor '" + std::string(700, 'a') + "... (4000 more bytes) ..." + std::string(300, 'a') +
           "': its description must be a JSON object"},
      {"ShapeWithoutEnd", broken_case([](Json& h) { h["q"]["shape"] = std::vector<int>(5000, 1); }),
       "tensor 'q': shape [" + repeated("1, ", 231) + "... (14052 more bytes) ..." + repeated("1, ", 84) +
           "1] of F32 takes 4 bytes, data_offsets give it 16"},
      {"NameWithANewline", broken_case([](Json& h) { h["a\nb"] = 1; }),
       "tensor 'a\\nb': its description must be a JSON object"},
  };
}

class HostileSafetensors : public ::testing::TestWithParam<Defect> {
 protected:
  const TemporaryFolder folder_;
  const std::string file_ = folder_.write("case.safetensors", GetParam().bytes);
};

TEST_P(HostileSafetensors, IsRefusedInOneSentence) {
  try {
    validate(read_case(file_, "kda"));
    FAIL() << "was read";
  } catch (const FileError& error) {
    EXPECT_EQ(error.what(), file_ + ": " + GetParam().line);
    EXPECT_EQ(error.file(), file_);
  }
}

#ifdef FLA_COMMAND
TEST_P(HostileSafetensors, EndsTheCommandWithOneLineAndNoFile) {
  for (const bool json : {false, true}) {
    std::vector<std::string> words{"run", "kda", "--in", file_, "--out", folder_ / "result.safetensors"};
    if (json) words.push_back("--json");
    const testing::Outcome outcome = testing::fla(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "fla: " + file_ + ": " + GetParam().line + "\n");
    EXPECT_THAT(folder_.contents(), ElementsAre("case.safetensors"));
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Defects, HostileSafetensors, ::testing::ValuesIn(defects()),
                         [](const auto& defect) { return defect.param.name; });

TEST(HostilePath, IsRefusedInOneSentence) {
  const TemporaryFolder folder;
  const auto message = [](const std::string& path) {
    try {
      Safetensors::open(path);
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(folder / "none"), (folder / "none") + ": cannot be read: No such file or directory");
  EXPECT_EQ(message(folder / "."), (folder / ".") + ": is not a regular file");
  EXPECT_EQ(message("/dev/null"), "/dev/null: is not a regular file");
}

TEST(PrintableExcerpt, CutsNoCharacter) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "\xe2\x82\xac";  // three bytes each
  const std::string excerpt = printable_excerpt(text);
  EXPECT_EQ(excerpt, text.substr(0, 699) + "... (2001 more bytes) ..." + text.substr(2700));
  EXPECT_EQ(printable_excerpt("short\n"), "short\\n");
}

TEST(SoundCase, IsTakenWhereTheBrokenOnesAreRefused) {
  const TemporaryFolder folder;
  const std::string file = folder.write("case.safetensors", broken_case([](Json&) {}));
  EXPECT_NO_THROW(validate(read_case(file, "kda")));
}

}  // namespace
}  // namespace fla::cases
