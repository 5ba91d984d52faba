// Checks the declaration of every key; the declarations are the reference.
#include "config/keys/setting.h"

#include <set>

#include "config/keys/toml.h"
#include "config/tables.h"
#include "config/test_config.h"

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

// What is wrong with `text` as a table with these keys; empty: nothing.
std::string problem_of(const Settings& keys, const std::string& text) {
  TomlError error;
  const auto table = read_toml(text, "f", error);
  EXPECT_TRUE(table) << error.text;
  Problems problems("f");
  if (table) Section(*table, "", problems).read(keys);
  return problems.first();
}

TEST(Settings, AKeyIsReadIntoItsVariableAndStaysAtItsDefaultWithoutIt) {
  std::string text = "a";
  bool flag = true;
  std::uint16_t number = 7;
  Duration duration = 3s;
  std::size_t size = 2 << 10;
  std::vector<std::string> texts{"x"};
  std::vector<int> numbers{1, 2};
  Settings keys;
  keys.text("text", text, "Help.");
  keys.flag("flag", flag, "Help.");
  keys.number("number", number, 1, 9, "Help.");
  keys.duration("duration", duration, 1s, "Help.");
  keys.size("size", size, 1, "Help.");
  keys.texts("texts", texts, "Help.");
  keys.numbers("numbers", numbers, 0, 9, "Help.");
  EXPECT_EQ(problem_of(keys, ""), "");
  EXPECT_EQ(text, "a");
  EXPECT_EQ(numbers, (std::vector<int>{1, 2}));
  EXPECT_EQ(problem_of(keys,
                       "text = \"b\"\nflag = false\nnumber = 9\nduration = \"2m\"\n"
                       "size = \"1MiB\"\ntexts = []\nnumbers = [5]\n"),
            "");
  EXPECT_EQ(text, "b");
  EXPECT_FALSE(flag);
  EXPECT_EQ(number, 9);
  EXPECT_EQ(duration, 2min);
  EXPECT_EQ(size, 1U << 20);
  EXPECT_TRUE(texts.empty());
  EXPECT_EQ(numbers, std::vector<int>{5});
}

TEST(Settings, TheReferenceSaysWhatTheReaderTakes) {
  std::uint16_t number = 7;
  Duration duration = 1500ms;
  std::size_t size = 1'048'000;
  bool order = true;
  std::optional<Duration> kept;
  Settings keys;
  keys.number("number", number, 1, 9, "Help.");
  keys.duration("duration", duration, 1s, "Help.");
  keys.size("size", size, 1 << 10, "Help.");
  keys.choice<bool>("order", order, {{"strict", false}, {"relaxed", true}}, "Help.");
  keys.duration("kept", kept, 1s, "Help.").otherwise("for ever").also("More.");
  const std::vector<KeyReference> all = keys.describe();
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[0].allowed, "1 to 9");
  EXPECT_EQ(to_toml(*all[0].initial), "7");
  EXPECT_EQ(all[1].allowed, "at least 1s");
  EXPECT_EQ(to_toml(*all[1].initial), "\"1500ms\"");
  EXPECT_EQ(to_toml(*all[2].initial), "\"1048000B\"");
  EXPECT_EQ(all[3].choices, (std::vector<std::string>{"strict", "relaxed"}));
  EXPECT_EQ(to_toml(*all[3].initial), "\"relaxed\"");
  EXPECT_FALSE(all[4].initial);
  EXPECT_EQ(all[4].otherwise, "for ever");
  EXPECT_EQ(all[4].help, "Help. More.");
}

TEST(Settings, AWrongKeyIsToldWithItsPlaceAndWhatIsAllowed) {
  std::string name;
  std::string slot;
  bool fast = false;
  Settings keys;
  keys.text("name", name, "Help.").required().check([&name] {
    return name == "x" ? "" : std::string("must be x");
  });
  keys.text("slot", slot, "Help.").only_for("PostgreSQL", [] { return "this is SQLite"; });
  keys.flag("fast", fast, "Help.");
  keys.renamed("quick", "fast", "It means the same.");
  keys.removed("slow", "was removed; remove this line");
  EXPECT_EQ(problem_of(keys, ""), "f:1:1: needs \"name\"");
  EXPECT_EQ(problem_of(keys, "name = \"y\""), "f:1:8: name: must be x");
  EXPECT_EQ(problem_of(keys, "name = \"x\"\nslot = \"s\""),
            "f:2:8: slot: is for PostgreSQL, and this is SQLite; remove it");
  EXPECT_EQ(problem_of(keys, "name = \"x\"\nquick = true"),
            "f:2:9: quick: is now called \"fast\"; rename it. It means the same.");
  EXPECT_EQ(problem_of(keys, "name = \"x\"\nslow = true"),
            "f:2:8: slow: was removed; remove this line");
  EXPECT_EQ(problem_of(keys, "name = \"x\"\nfasst = true"),
            "f:2:1: fasst: unknown key; did you mean \"fast\"? Allowed here: name, slot, fast");
}

}  // namespace
}  // namespace dovetail::config
