#include "fla/core/recent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

struct Word {
  std::string text;
  friend bool operator==(const Word&, const Word&) = default;
  friend std::size_t hash_of(const Word& word) { return word.text.size(); }  // many are alike
};

class Recent : public testing::Test {
 protected:
  void add(const std::string& word, int value) {
    recent_.add({word}, value, [this](int gone) { gone_.push_back(gone); });
  }
  int find(const std::string& word) {
    const int* found = recent_.find({word});
    return found == nullptr ? -1 : *found;
  }

  fla::Recent<Word, int> recent_{3};
  std::vector<int> gone_;
};

TEST_F(Recent, FindsWhatWasAdded) {
  add("ab", 1);
  add("cd", 2);
  EXPECT_EQ(find("ab"), 1);
  EXPECT_EQ(find("cd"), 2);
  EXPECT_EQ(find("ef"), -1);
  EXPECT_EQ(find("abc"), -1);
}

TEST_F(Recent, DropsWhatWasUsedLeastRecently) {
  add("ab", 1);
  add("cd", 2);
  add("ef", 3);
  EXPECT_EQ(find("ab"), 1);
  add("gh", 4);
  EXPECT_THAT(gone_, testing::ElementsAre(2));
  EXPECT_EQ(find("cd"), -1);
  EXPECT_EQ(find("ab"), 1);
}

TEST_F(Recent, RemovesByKey) {
  add("ab", 1);
  add("cd", 2);
  recent_.remove_if([](const Word& word) { return word.text == "ab"; },
                    [this](int gone) { gone_.push_back(gone); });
  EXPECT_THAT(gone_, testing::ElementsAre(1));
  EXPECT_EQ(find("ab"), -1);
  EXPECT_EQ(find("cd"), 2);
}

}  // namespace
