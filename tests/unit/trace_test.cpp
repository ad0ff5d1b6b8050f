// The timeline's log, and what it looks like as a Chrome trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "trace/json_text.h"
#include "trace/timeline_log.h"

namespace slipway::internal {
namespace {

using Kind = TimelineEntry::Kind;
using Lines = std::vector<std::string>;

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonText, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(json("plain"), R"("plain")");
  EXPECT_EQ(json("a\"b\\c/"), R"("a\"b\\c/")");
  EXPECT_EQ(json(std::string_view("\0\n\t\x1F\x7F ", 6)), R"("\u0000\u000a\u0009\u001f\u007f ")");
}

TEST(JsonText, KeepsUtf8AndReplacesWhatIsNone) {
  const std::string bad = "\xEF\xBF\xBD";
  for (const char* good : {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "stra\xC3\x9F\x65"}) {
    EXPECT_EQ(json(good), '"' + std::string(good) + '"');
  }
  EXPECT_EQ(json("a\x80z"), "\"a" + bad + "z\"");
  EXPECT_EQ(json("\xC3"), '"' + bad + '"');
  EXPECT_EQ(json("\xC3("), '"' + bad + "(\"");
  EXPECT_EQ(json("\xE2\x82"), '"' + bad + bad + '"');
  EXPECT_EQ(json("\xC0\xAF"), '"' + bad + bad + '"') << "overlong";
  EXPECT_EQ(json("\xE0\x80\x80"), '"' + bad + bad + bad + '"') << "overlong";
  EXPECT_EQ(json("\xED\xA0\x80"), '"' + bad + bad + bad + '"') << "a surrogate";
  EXPECT_EQ(json("\xF4\x90\x80\x80"), '"' + bad + bad + bad + bad + '"') << "beyond U+10FFFF";
  EXPECT_EQ(json("\xFF"), '"' + bad + '"');
}

// --- The log ---

const int kSinks[3] = {};

TEST(TimelineLog, CountsSubmissionsSpansAndOlderRecordsThatFoundNoRoom) {
  TimelineLog log(1);
  log.know(&kSinks[0], "main", 0);
  for (std::uint64_t i = 5; i < 8; ++i) log.submitted(&kSinks[0], "main", i, i, "fill", 10);
  for (std::uint64_t i = 3; i < 8; ++i) {  // 3 and 4 are from before the log
    log.started(&kSinks[0], i, 11);
    log.ended(&kSinks[0], i, 12);
  }
  log.span({}, nullptr, nullptr);
  std::uint64_t dropped = 0;
  const auto entries = log.take(&dropped);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].sequence, 5U);
  EXPECT_EQ(entries[0].ended_ns, 12);
  EXPECT_EQ(dropped, 2U + 2U + 1U) << "6 and 7, 3 and 4, the span";
}

TEST(TimelineLog, KeepsTheFirstStartAndTheFirstEnd) {
  TimelineLog log(10);
  log.submitted(&kSinks[0], "main", 1, 1, "decode", 10);
  EXPECT_TRUE(log.started(&kSinks[0], 1, 20));
  log.started(&kSinks[0], 1, 30);  // goes on after it stood at a gate
  log.ended(&kSinks[0], 1, 40);
  log.ended(&kSinks[0], 1, 50);
  const auto entries = log.take(nullptr);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].started_ns, 20);
  EXPECT_EQ(entries[0].ended_ns, 40);
}

TEST(TimelineLog, NamesWhatWasSubmittedBeforeIt) {
  TimelineLog log(10);
  log.know(&kSinks[0], "main", 100);
  EXPECT_FALSE(log.started(&kSinks[0], 103, 20)) << "its name is asked for";
  log.describe(&kSinks[0], 103, "decode", &kSinks[1], 7);
  const auto entries = log.take(nullptr);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].stream, "main");
  EXPECT_EQ(entries[0].sequence, 3U) << "as its user counts";
  EXPECT_EQ(entries[0].name, "decode");
  EXPECT_EQ(entries[0].subject, "decode");
  EXPECT_EQ(entries[0].step, 7U);
}

TEST(TimelineLog, TellsStreamsAndGraphsOfOneNameApart) {
  TimelineLog log(10);
  log.know(&kSinks[2], "same", 0);  // without entries, it takes no name away
  log.submitted(&kSinks[0], "same", 1, 1, "a", 1);
  log.submitted(&kSinks[1], "same", 1, 1, "b", 1);
  log.submitted(&kSinks[0], "same", 2, 2, "c", 1);
  log.submitted(&kSinks[0], "other", 3, 1, "d", 1);  // the sink is used again
  TimelineEntry node;
  node.subject = "same";
  log.span(node, &kSinks[1], &kSinks[2]);
  const auto entries = log.take(nullptr);
  ASSERT_EQ(entries.size(), 5U);
  const char* streams[] = {"same", "same (2)", "same", "other", "same (2)"};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(entries[i].stream, streams[i]) << i;
  EXPECT_EQ(entries[4].subject, "same") << "the first graph of that name";
}

TEST(TimelineLog, TakesNothingAfterItsEnd) {
  TimelineLog log(10);
  log.submitted(&kSinks[0], "main", 1, 1, "a", 1);
  EXPECT_EQ(log.take(nullptr).size(), 1U);
  log.ended(&kSinks[0], 1, 2);  // by a worker that was under way
  log.span({}, &kSinks[0], nullptr);
  EXPECT_TRUE(log.take(nullptr).empty());
}

// --- The trace ---

// The lines that have all of the parts; each event has its own.
Lines lines_with(const std::string& text, const std::vector<std::string>& parts) {
  Lines found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (std::all_of(parts.begin(), parts.end(), [&](auto& part) { return line.find(part) != line.npos; }))
      found.push_back(line);
  }
  return found;
}
testing::AssertionResult has_one(const std::string& text, const std::vector<std::string>& parts) {
  const Lines found = lines_with(text, parts);
  if (found.size() == 1) return testing::AssertionSuccess();
  return testing::AssertionFailure() << found.size() << " lines with " << parts.front() << " in\n" << text;
}

TimelineEntry entry(Kind kind, std::string name, std::int64_t started, std::int64_t ended) {
  TimelineEntry e;
  e.kind = kind;
  e.name = std::move(name);
  if (kind != Kind::kUpdate) e.stream = "main";
  if (kind != Kind::kSubmission) e.subject = "decode";
  e.started_ns = started;
  e.ended_ns = ended;
  return e;
}
TimelineEntry of_step(TimelineEntry e, std::uint64_t step, std::uint32_t gate = 0) {
  e.subject = "decode";
  e.step = step;
  e.gate = gate;
  return e;
}

TEST(ChromeTrace, TimesAreMicrosecondsFromTheFirstMoment) {
  auto e = entry(Kind::kSubmission, "fill", 5'000'001'500, 5'000'003'507);
  e.submitted_ns = 5'000'000'000;
  e.sequence = 9;
  const std::string text = chrome_trace(std::vector{e});
  EXPECT_TRUE(has_one(text, {R"("ph":"X","name":"fill")", R"("cat":"submission","ts":1.500,"dur":2.007,)",
                             R"("args":{"sequence":9,"submitted_us":0.000,"queued_us":1.500}})"}));
  EXPECT_TRUE(has_one(text, {R"("name":"thread_name","pid":1,"tid":1,"args":{"name":"main"})"}));
  EXPECT_TRUE(has_one(text, {R"("first_ns":5000000000,"entries":1,"unfinished":0,"dropped":0)"}));
  EXPECT_EQ(text, chrome_trace(std::vector{e}));
}

TEST(ChromeTrace, NamesAreEscapedEverywhere) {
  auto e = entry(Kind::kSubmission, "a\"\n\xFF", 10, 20);
  e.stream = "s\\\x01";
  const std::string text = chrome_trace(std::vector{e}, {.process = "p\t"});
  EXPECT_TRUE(has_one(text, {R"("name":"a\"\u000a)"
                             "\xEF\xBF\xBD\""}));
  EXPECT_TRUE(has_one(text, {R"({"name":"s\\\u0001"})"}));
  EXPECT_TRUE(has_one(text, {R"({"name":"p\u0009"})"}));
}

TEST(ChromeTrace, UnfinishedEntriesAreShownAndCounted) {
  std::vector<TimelineEntry> all{
      entry(Kind::kSubmission, "whole", 1000, 2000),  entry(Kind::kSubmission, "runs", 3000, 0),
      entry(Kind::kSubmission, "under way", 0, 4000), entry(Kind::kSubmission, "queued", 0, 0),
      entry(Kind::kSubmission, "nothing", 0, 0),      of_step(entry(Kind::kUpdate, "op", 5000, 0), 3, 1)};
  all[3].submitted_ns = 4500;
  const std::string text = chrome_trace(all);
  EXPECT_TRUE(has_one(text, {R"("ph":"X","name":"whole")"}));
  EXPECT_TRUE(
      has_one(text, {R"j("ph":"X","name":"runs (unfinished)")j", R"("ts":2.000,"dur":2.000)", R"("unfinished":true)"}))
      << "up to the last moment known";
  EXPECT_TRUE(has_one(text, {R"j("ph":"i","name":"under way (its start was not seen)")j", R"("ts":3.000)"}));
  EXPECT_TRUE(has_one(text, {R"j("ph":"i","name":"queued (submitted, not started)")j", R"("ts":3.500)"}));
  EXPECT_TRUE(has_one(text, {R"j("ph":"i","name":"update step 3: op (refused)")j", R"("ts":4.000)"}));
  EXPECT_TRUE(has_one(text, {R"("entries":6,"unfinished":5,)"}));
}

TEST(ChromeTrace, AnEndBeforeTheStartIsNoNegativeDuration) {
  EXPECT_TRUE(has_one(chrome_trace(std::vector{entry(Kind::kSubmission, "odd", 200, 100)}), {R"("dur":0.000)"}));
}

TEST(ChromeTrace, DroppedEntriesAreTold) {
  const std::string text = chrome_trace(std::vector{entry(Kind::kSubmission, "fill", 10, 20)}, {.dropped = 17});
  EXPECT_TRUE(has_one(text, {"the log was full: 17 entries were dropped", R"("ph":"i")", R"("s":"g")"}));
  EXPECT_TRUE(has_one(text, {R"("dropped":17})"}));
  EXPECT_TRUE(has_one(chrome_trace({}, {.dropped = 1}), {R"("ts":0.000)", "1 entries"}))
      << "also when nothing was kept";
  EXPECT_TRUE(lines_with(chrome_trace({}), {"full"}).empty());
}

TEST(ChromeTrace, AnArrowLeadsFromTheUpdateToTheWaitThatItEnded) {
  std::vector<TimelineEntry> all{
      of_step(entry(Kind::kSubmission, "decode", 1000, 9000), 4),
      of_step(entry(Kind::kGateWait, "embed", 2000, 5000), 4), of_step(entry(Kind::kNode, "embed", 5100, 6000), 4),
      of_step(entry(Kind::kUpdate, "values", 3000, 4000), 4), of_step(entry(Kind::kUpdate, "values", 7000, 8000), 5)};
  all[0].submitted_ns = 500;
  const std::string text = chrome_trace(all);
  EXPECT_TRUE(has_one(text, {R"("ph":"X","name":"decode step 4")", R"("cat":"replay")"}));
  EXPECT_TRUE(has_one(text, {R"("ph":"i","name":"decode step 4 submitted")"}));
  EXPECT_TRUE(has_one(
      text, {R"("ph":"X","name":"gate values, before embed")", R"("gate":0,"gate_name":"values","group":"embed")"}));
  EXPECT_TRUE(has_one(text, {R"("ph":"X","name":"update step 4: values","pid":1,"tid":1)"})) << "a track of its own";
  EXPECT_TRUE(has_one(text, {R"({"name":"decode: updates"})"}));
  EXPECT_EQ(lines_with(text, {R"("name":"gate values opens")"}).size(), 2U);
  EXPECT_TRUE(has_one(text, {R"("ph":"s")", R"("tid":1)", R"("ts":3.499,"id":1)"}));
  EXPECT_TRUE(has_one(text, {R"("ph":"f")", R"("tid":2)", R"("ts":4.499,"id":1,"bp":"e")"}));
}

TEST(ChromeTrace, AnArrowLeadsIntoTheReplayThatDidNotHaveToWait) {
  const std::string before = chrome_trace(std::vector{of_step(entry(Kind::kUpdate, "values", 1000, 2000), 1),
                                                      of_step(entry(Kind::kSubmission, "decode", 5000, 9000), 1)});
  EXPECT_TRUE(has_one(before, {R"("ph":"f")", R"("ts":4.000)"}));
  const std::string during = chrome_trace(std::vector{of_step(entry(Kind::kUpdate, "values", 6000, 7000), 1),
                                                      of_step(entry(Kind::kSubmission, "decode", 5000, 9000), 1)});
  EXPECT_TRUE(has_one(during, {R"("ph":"f")", R"("ts":2.000)"}));
  const std::string late = chrome_trace(std::vector{of_step(entry(Kind::kUpdate, "values", 9500, 9900), 1),
                                                    of_step(entry(Kind::kSubmission, "decode", 5000, 9000), 1)});
  EXPECT_TRUE(lines_with(late, {R"("ph":"f")"}).empty()) << "it opened nothing of this replay";
}

TEST(ChromeTrace, SlicesOfARowNest) {
  const std::string text = chrome_trace(std::vector{of_step(entry(Kind::kUpdate, "a", 1000, 3000), 1),
                                                    of_step(entry(Kind::kUpdate, "b", 2000, 4000), 2),
                                                    of_step(entry(Kind::kUpdate, "c", 3000, 3500), 3)});
  EXPECT_TRUE(has_one(text, {": a\"", R"("tid":1)"}));
  EXPECT_TRUE(has_one(text, {": b\"", R"("tid":2)"})) << "neither inside a nor behind it";
  EXPECT_TRUE(has_one(text, {": c\"", R"("tid":1)", R"("ph":"X")"}));
  EXPECT_TRUE(has_one(text, {"decode: updates (row 2)"}));
}

TEST(ChromeTrace, ReasonsAreInstants) {
  auto e = entry(Kind::kReason, "guard_alignment", 10, 10);
  e.subject = "add";
  EXPECT_TRUE(has_one(chrome_trace(std::vector{e}),
                      {R"("ph":"i","name":"guard_alignment: add")", R"("launch":"add","reason":"guard_alignment")"}));
}

}  // namespace
}  // namespace slipway::internal
