#include "client/terminal/prompt_dialogue.h"

#include <gtest/gtest.h>

#include <sstream>

#include "client/terminal/generation_printer.h"
#include "client/terminal/routing_bars.h"

namespace braid {
namespace prompt_dialogue_test {

TEST(PromptDialogueTest, SettingsAreApplied) {
  v1::GenerateRequest request;
  for (const char* line : {":set temperature 0.8", ":set top-p 0.9", ":set max-tokens 7", ":seed 3",
                           ":routing segment", ":show-routing"}) {
    EXPECT_EQ(*ApplyDialogueCommand(line, &request), DialogueAction::kShowSettings) << line;
  }
  EXPECT_EQ(DialogueSettings(request),
            "[temperature 0.8, top-p 0.9, max-tokens 7, seed 3, routing segment, show-routing on]");
  EXPECT_EQ(*ApplyDialogueCommand(":help", &request), DialogueAction::kHelp);
  EXPECT_EQ(*ApplyDialogueCommand(":quit", &request), DialogueAction::kEnd);
}

TEST(PromptDialogueTest, InvalidCommandsChangeNothing) {
  v1::GenerateRequest request;
  for (const char* line :
       {":", ":what", ":set", ":set temperature", ":set temperature warm", ":set temperature -1",
        ":set temperature nan", ":set top-p 0", ":set top-p 2", ":set max-tokens 0", ":seed -1",
        ":routing expert", ":set color red", ":show-routing maybe", ":set seed 1 2"}) {
    const auto action = ApplyDialogueCommand(line, &request);
    ASSERT_FALSE(action.ok()) << line;
    EXPECT_NE(action.status().message().find("expected"), absl::string_view::npos) << line;
  }
  EXPECT_EQ(request.ByteSizeLong(), 0u);
}

TEST(RoutingBarsTest, HeightsFollowTheWeights) {
  EXPECT_EQ(RoutingBar(std::vector<double>{0.25, 0.25, 0.25, 0.25}, true), "▄▄▄▄");
  EXPECT_EQ(RoutingBar(std::vector<double>{0, 1, 0, 0}, true), "▁█▁▁");
  EXPECT_EQ(RoutingBar(std::vector<double>{0, 0.5, 0.5, 0}, false), ".99.");
  EXPECT_EQ(RoutingBar(std::vector<double>(32, 1.0 / 32), false), std::string(32, '5'));
}

TEST(RoutingBarsTest, DrawsZeroAndOneExpert) {
  EXPECT_EQ(RoutingBar({}, true), "");
  EXPECT_EQ(RoutingBar(std::vector<double>{1}, true), "▄");  // half of twice 1/E
  EXPECT_EQ(RoutingBar(std::vector<double>{0, 0}, false), "..");
}

TEST(GenerationPrinterTest, ReportsAModelWithoutExpertsOnce) {
  std::ostringstream out, notes;
  GenerationPrinter printer({.routing_asked = true}, out, notes);
  v1::GenerateEvent event;
  event.set_text("a");
  printer.Add(event);
  printer.Add(event);
  EXPECT_EQ(out.str(), "aa");
  EXPECT_EQ(notes.str(), "[no layer has experts to merge: no routing weights]\n");
}

TEST(GenerationPrinterTest, PrintsRoutingOnSeparateLines) {
  std::ostringstream out, notes;
  GenerationPrinter printer({.terminal = true, .blocks = false}, out, notes);
  printer.Print("ab");
  v1::GenerateEvent event;
  event.set_text("c\x1b[2J");
  event.set_num_tokens(5);
  auto* const mixture = event.add_routing();
  mixture->set_layer(1);
  mixture->set_before_token(5);
  for (const double weight : {0.5, 0.3, 0.2}) mixture->add_weights(weight);
  EXPECT_TRUE(printer.Add(event));
  EXPECT_EQ(out.str(), "ab\nc?[2J");
  const std::string first =
      "[routing before token 5]\n  layer  1  743  e0 0.50  e1 0.30  e2 0.20\n";
  EXPECT_EQ(notes.str(), first);
  // Several changes in one event.
  *event.add_routing() = event.routing(0);
  event.mutable_routing(1)->set_before_token(7);
  printer.Add(event);
  EXPECT_EQ(notes.str(), first + first + "[routing before token 7]" + first.substr(24));
}

}  // namespace prompt_dialogue_test
}  // namespace braid
