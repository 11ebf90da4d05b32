#include <gtest/gtest.h>

#include <string>

#include "tests/tools/program.h"
#include "tests/tools/temporary_folder.h"

namespace fla::testing {
namespace {

const std::string kRule =
    "[[rule]]\nop = 'kda'\nwhen = \"T < 64 and device == 'cpu'\"\norder = ['cpu_simd']\n";

TEST(ConfigCheck, SaysThatAFileIsRight) {
  const TemporaryFolder folder;
  const std::string none = folder.write("none.toml", ""), one = folder.write("one.toml", kRule),
                    two = folder.write("two.toml", kRule + kRule);
  for (const auto& [path, rules] : {std::pair{none, "0 rules"}, {one, "1 rule"}, {two, "2 rules"}}) {
    const Outcome outcome = fla({"config", "check", path});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.out, path + ": ok, " + rules + "\n");
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(ConfigCheck, SaysWhatIsWrongAndWhere) {
  const TemporaryFolder folder;
  const std::string path = folder.write("c.toml", "# \n" + kRule + "[order]\nkda = ['cpu_smid']\n");
  const Outcome outcome = fla({"config", "check", path});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            path + ":7: order.kda: op kda has no backend 'cpu_smid'; did you mean 'cpu_simd'?\n");
}

TEST(ConfigCheck, HoldsConditionsToTheOpsArguments) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("c.toml", "[[rule]]\nop = 'kda'\nwhen = 'output_fnal_state'\ndisable_dispatch = true\n");
  const Outcome outcome = fla({"config", "check", path});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, path +
                             ":3: when: unknown name 'output_fnal_state'; did you mean 'output_final_state'? "
                             "(column 1 of \"output_fnal_state\")\n");
}

TEST(ConfigCheck, DoesNotNeedAnEnvironmentThatIsRight) {
  const TemporaryFolder folder;
  const std::string bad = folder.write("bad.toml", "nonsense"), good = folder.write("good.toml", kRule);
  const Outcome outcome = fla({"config", "check", good}, {.variables = {{"FLA_CONFIG", bad}}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(ConfigCheck, FileThatCannotBeReadIsBadInput) {
  const TemporaryFolder folder;
  const Outcome outcome = fla({"config", "check", folder / "none.toml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, folder / "none.toml" + ": cannot be read: No such file or directory\n");
}

TEST(ConfigCheck, NeedsAFile) {
  EXPECT_EQ(fla({"config", "check"}).code, 2);
  EXPECT_EQ(fla({"config"}).code, 2);
}

}  // namespace
}  // namespace fla::testing
