// The page as text, and as Debian's Chromium shows it.
#include "retile/drawing/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "retile/draw.h"
#include "retile/planner/planner.h"
#include "tests/drawing/drawings.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/process.h"

namespace retile::test {
namespace {

using drawing::Scene;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Json json_in(const std::string& page) {
  const std::string begin = "<script type=\"application/json\">";
  const std::size_t start = page.find(begin) + begin.size();
  return Json::parse(page.substr(start, page.find("</script>", start) - start));
}

TEST(Html, stands_alone) {
  const std::string page = drawing::to_html({{scene_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]")}});
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  for (const char* outside : {"http:", "https:", " src=", "@import", "url(", "fetch("}) {
    if (std::string(outside) == "http:") continue;  // the name of SVG's namespace
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_EQ(count_of_part(page, "http:"), count_of_part(page, "http://www.w3.org/2000/svg"));
}

TEST(Html, has_all_frames_and_tables_without_scripts) {
  const std::string page = drawing::to_html({{scene_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]")}});
  const std::string body = page.substr(page.find("<main>"), page.find("<script") - page.find("<main>"));
  EXPECT_EQ(count_of_part(body, "<svg "), 2);
  EXPECT_EQ(count_of_part(body, "<figure>"), 2);
  EXPECT_THAT(body, HasSubstr("aria-label=\"[2{x}8, 8], 64 bytes per device. [0:2, 0:8] on 0; [2:4, 0:8] on 1;"));
  EXPECT_THAT(body,
              HasSubstr("<tr><th scope=\"row\">1 alltoall(0 -&gt; 1; 4)</th><td>16</td><td>48 bytes</td>"
                        "<td>48 bytes</td><td>64 bytes</td><td>128 bytes</td><td><code>[8, 2{x}8]</code></td></tr>"));
  EXPECT_EQ(find_markup_fault(body.substr(0, body.rfind("</div>") + 6) + "</section></main>"), std::nullopt);
}

TEST(Html, has_the_scene_as_json) {
  const Json json = json_in(drawing::to_html({{scene_of("x=2", "[2{x}4, 4]", "[4, 2{x}4]")}}));
  EXPECT_EQ(json["colors"], Json({"#77aadd", "#ee8866"}));
  const Json& plan = json["plans"][0];
  EXPECT_EQ(plan["frames"][1]["boxes"], Json::parse("[[[0,0],[4,2],[0]],[[0,2],[4,4],[1]]]"));
  EXPECT_EQ(plan["steps"][0]["pieces"], Json::parse("[[1,0],[0,1]]"));  // their boxes follow
  EXPECT_EQ(plan["steps"][0]["received"], 4);
  EXPECT_EQ(plan["steps"][0]["traffic"], Json::parse(R"({"side":2,"per":1,"elements":[0,4,4,0]})"));
}

TEST(Html, says_the_boxes_of_pieces_that_do_not_follow) {
  const Scene scene =
      scene_of(problem_of({"x=3", "[8] boxes {[0:3] [6:8]; ; [3:6]}", "x=3", "[8] boxes {[3:6]; [0:3]; [6:8]}"}));
  EXPECT_EQ(json_in(drawing::to_html({{scene}}))["plans"][0]["steps"][0]["pieces"],
            Json::parse("[[2,0],[0,1,[0],[3]],[0,2,[6],[8]]]"));
}

TEST(Html, escapes_what_users_write) {
  const Problem problem =
      parse_problem({"line", R"x({"id": "</script><img onerror=alert(1)>", "mesh": {"</script><b>": 2}, "shape": [4],)x"
                             R"x( "src": [["</script><b>"]], "dst": [[]]})x"});
  const std::string page = drawing::to_html({{scene_of(problem)}});
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<b>&")));
  EXPECT_EQ(count_of_part(page, "</script"), 2);  // the scene's and the page's own
  EXPECT_THAT(page, HasSubstr("<h1 id=\"title0\">&lt;/script&gt;&lt;img onerror=alert(1)&gt;</h1>"));
  EXPECT_THAT(json_in(page)["plans"][0]["frames"][0]["layout"], HasSubstr("</script><b>"));
}

TEST(Html, is_light_at_64_and_at_1024_devices) {
  const auto size = [](const Scene& scene) { return drawing::to_html({{scene, scene}}).size(); };
  constexpr std::size_t limit = 2'000'000;
  EXPECT_LT(size(scene_of("x=8,y=8", "[1{x,y}64, 64]", "[64, 1{x,y}64]", by(PlannerKind::direct))), limit);
  EXPECT_LT(size(scene_of("x=8,y=8", "[1{x,y}64, 64, 64]", "[64, 8{y}64, 8{x}64]", by(PlannerKind::paper))), limit);
  EXPECT_LT(size(scene_of("x=8,y=8", "[8{x}64, 8{y}64]", "[8{y}64, 8{x}64]", by(PlannerKind::gather_slice))), limit);
  EXPECT_LT(size(scene_of("x=1024", "[1{x}1024, 1024]", "[1024, 1{x}1024]", by(PlannerKind::direct))), limit);
  EXPECT_LT(size(scene_of("x=32,y=32", "[32{x}1024, 32{y}1024]", "[1{x,y}1024, 1024]")), limit);
}

TEST(Draw, is_there_for_users_of_the_library) {
  const Plan plan = make_plan(problem_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"));
  EXPECT_THAT(draw_html(plan), HasSubstr("16 elements per device"));
  DrawOptions options;
  options.element = ElementType::f64;
  options.beside = &plan;
  const std::string page = draw_html(plan, options);
  EXPECT_THAT(page, HasSubstr("128 bytes per device"));
  EXPECT_EQ(json_in(page)["plans"].size(), 2U);
  EXPECT_EQ(find_markup_fault(draw_svg(plan, options)), std::nullopt);
  options.dimensions = {0, 2};
  EXPECT_EQ(diagnostic_of([&] { return draw_html(plan, options); }),
            "error: there is no dimension 2\nhint: the plan has 2, counted from 0\n");
}

TEST(Draw, refuses_plans_that_are_wrong) {
  Plan plan = make_plan(problem_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"));
  std::get<AllToAllStep>(plan.movement.steps[0].operation).groups = Groups{{0, 1}, {2, 3}};
  try {
    draw_html(plan);
    FAIL();
  } catch (const RuntimeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the plan is wrong: step 0"));
  }
}

// --- In the browser.

bool is_there(const std::string& program) {
  return run_process({"/bin/sh", "-c", "command -v $0 >/dev/null", program}).status == 0;
}

// Opens the page with a script at its end, and returns what that writes, as JSON.
Json run_page(std::string page, const std::string& script, const std::string& fragment = "") {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "retile.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make a folder");
  const std::string reporting =
      "<script>window.addEventListener('error', (event) => report({error: event.message}));\n"
      "function report(value) { const node = document.createElement('pre'); node.id = 'report';"
      " node.textContent = encodeURIComponent(JSON.stringify(value)); document.body.append(node) }</script>";
  page.insert(page.find("</head>"), reporting);
  page.insert(page.rfind("</body>"), "<script>Promise.resolve((() => {" + script + "})()).then(report)</script>");
  std::ofstream(folder + "/page.html") << page;
  const ProcessResult result =
      run_process({"/bin/sh", "-c", R"(HOME="$0" exec timeout 120 "$@")", folder, "chromium", "--headless",
                   "--no-sandbox", "--disable-gpu", "--user-data-dir=" + folder + "/profile",
                   "--virtual-time-budget=8000", "--dump-dom", "file://" + folder + "/page.html" + fragment});
  fs::remove_all(folder);
  const std::string begin = "<pre id=\"report\">";
  const std::size_t start = result.output.find(begin);
  if (start == std::string::npos) return {{"error", "no report: " + result.errors}};
  const std::size_t first = start + begin.size();
  std::string text;
  for (std::size_t i = first; result.output[i] != '<'; ++i) {
    if (result.output[i] != '%') {
      text += result.output[i];
      continue;
    }
    text += static_cast<char>(std::stoi(result.output.substr(i + 1, 2), nullptr, 16));
    i += 2;
  }
  return Json::parse(text);
}

class Page : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_there("chromium")) GTEST_SKIP() << "there is no chromium";
  }
};

const char* const press = R"(
const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
const title = () => document.querySelector(".now b").textContent;
)";

TEST_F(Page, steps_through_the_plan_by_keys) {
  const std::string page = drawing::to_html(
      {{scene_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]", by(PlannerKind::paper))}});
  const Json titles = run_page(page, press + std::string(R"(
    const titles = [title()];
    for (const key of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "Home", "End"]) {
      press(key);
      titles.push(title());
    }
    return titles;)"));
  EXPECT_EQ(
      titles,
      Json({"From source to target in 4 steps", "Step 1 of 4: dynslice(3; 4)", "Step 2 of 4: alltoall(0 -> 1; 2)",
            "Step 3 of 4: alltoall(0 -> 2; 4)", "Step 4 of 4: allgather(3; 4)", "Step 4 of 4: allgather(3; 4)",
            "Step 3 of 4: alltoall(0 -> 2; 4)", "From source to target in 4 steps", "Step 4 of 4: allgather(3; 4)"}));
}

TEST_F(Page, plays_to_the_end) {
  const std::string page = drawing::to_html({{scene_of("x=2", "[8] sum {x}", "[8]")}});
  const Json found = run_page(page, press + std::string(R"(
    press(" ");
    const seen = [];
    const look = () => seen.push([title().slice(0, 11), document.querySelectorAll(".flying").length]);
    return new Promise((done) => {
      look();
      for (const time of [1100, 3300]) setTimeout(look, time);
      setTimeout(() => { look(); done(seen); }, 6000);
    });)"));
  EXPECT_EQ(found, Json::parse(R"([["Step 1 of 3", 2], ["Step 1 of 3", 0], ["Step 2 of 3", 0], ["Step 3 of 3", 0]])"));
}

TEST_F(Page, opens_where_its_address_says) {
  const std::string page =
      drawing::to_html({{scene_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]"),
                         scene_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]", by(PlannerKind::gather_slice))}});
  const Json found = run_page(page, press + std::string(R"(
    return [title(), document.querySelector("input[type=number]").value, document.querySelectorAll(".stage .flow").length,
            document.querySelector(".more h3").textContent, [...document.querySelectorAll(".stage .box title")].map((node) => node.textContent)[0]];)"),
                              "#plan=1&step=1&device=2");
  EXPECT_EQ(found, Json({"Step 1 of 2: allgather(0; 4)", "2", 3, "Device 2 gets 192 bytes and sends 192 bytes",
                         "device 0: [0:2, 0:8], 64 bytes"}));
}

TEST_F(Page, overview_says_who_sends_to_whom) {
  const std::string page = drawing::to_html({{scene_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]")}});
  const Json found = run_page(page, press + std::string(R"(
    return [document.querySelectorAll(".traffic .cell").length, document.querySelector(".more > div").hidden];)"));
  EXPECT_EQ(found, Json({12, true}));
}

// The page's geometry is that of the library: slabs lie where the picture without scripts has them.
TEST_F(Page, places_layers_as_the_library_does) {
  const std::string script = R"(
    const drawing = document.querySelector(".drawing").drawing;
    const figures = [...document.querySelectorAll(".still svg")];
    return drawing.current.frames.map((frame, i) => {
      const rounded = (length) => Math.round(length * 10) / 10;
      const ours = drawing.picture(frame, 260).layers.map(({x, y, width, height}) => [x, y, width, height].map(rounded));
      const theirs = [...figures[i].querySelectorAll(".void")].map((node) => ["x", "y", "width", "height"].map((key) => Number(node.getAttribute(key))));
      return [ours, theirs];
    });)";
  for (const Scene& scene :
       {scene_of("x=4,y=2", "[1{y,x}8, 8, 8]", "[8, 4{y}8, 2{x}8]", by(PlannerKind::paper)),
        scene_of("x=4", "[64, 256] sum {x}", "[16{x}64, 256]"), scene_of("x=3", "[9]", "[3{x}9]")}) {
    const Json frames = run_page(drawing::to_html({{scene}}), script);
    ASSERT_EQ(frames.size(), scene.frames.size()) << frames;
    for (const Json& frame : frames) {
      EXPECT_EQ(frame[0], frame[1]);
      EXPECT_FALSE(frame[0].empty());
    }
  }
}

TEST_F(Page, shows_every_kind_of_layout_without_an_error) {
  RandomProblems random(17);
  std::vector<drawing::Comparison> comparisons;
  for (int i = 0; i < 60; ++i) comparisons.push_back({scene_of(any_problem(random))});
  const Json found = run_page(drawing::to_html(comparisons), R"(
    let boxes = 0;
    for (const {drawing} of document.querySelectorAll(".drawing")) {
      for (let step = 0; step <= drawing.steps.length; ++step) {
        drawing.go(step);
        for (let device = 0; device < drawing.current.devices; ++device) drawing.chooseDevice(device);
        boxes += drawing.stage.querySelectorAll(".box").length;
      }
      if (drawing.current.dimensions.length > 1) drawing.chooseDimension(2, 0);
    }
    return boxes > 200 && !document.querySelector("#report");)");
  EXPECT_EQ(found, true);
}

TEST_F(Page, forgets_the_dimensions_of_parts_once_they_are_added_up) {
  const Json found = run_page(drawing::to_html({{scene_of("x=2", "[8] sum {x}", "[8]")}}), R"(
    return [...document.querySelectorAll(".stage .box title, .scroll td")].map((node) => node.textContent);)",
                              "#step=3");
  EXPECT_EQ(found, Json({"device 0: [0:4], 16 bytes", "device 1: [4:8], 16 bytes", "devices 0 1: [0:8], 32 bytes",
                         "from 1", "[4:8]", "16 bytes", "to 1", "[0:4]", "16 bytes"}));
}

TEST_F(Page, works_for_a_thousand_devices) {
  const std::string page = drawing::to_html({{scene_of("x=32,y=32", "[32{x}1024, 32{y}1024]", "[1{x,y}1024, 1024]")}});
  const Json found = run_page(page, press + std::string(R"(
    press("ArrowRight");
    const numbers = [...document.querySelectorAll(".stage .boxes")].map((node) => node.querySelectorAll(".box").length);
    return [...numbers, document.querySelectorAll(".stage .flow").length, document.querySelector(".gets, .scroll").textContent.slice(0, 14)];)"));
  EXPECT_EQ(found, Json({1024, 1024, 32, "The pieces tha"}));
}

TEST_F(Page, takes_names_as_text) {
  const Problem problem = parse_problem(
      {"line",
       R"x({"id": "<img src=x onerror=report({error:1})>", "mesh": {"<img src=x onerror=report({error:2})>": 2},)x"
       R"x( "shape": [4, 4], "src": [["<img src=x onerror=report({error:2})>"], []], "dst": [[], []], "dtype": "f32"})x"});
  const Json found = run_page(drawing::to_html({{scene_of(problem)}}), press + std::string(R"(
    press("ArrowRight");
    return document.querySelectorAll("img").length;)"));
  EXPECT_EQ(found, 0);
}

}  // namespace
}  // namespace retile::test
