// retile draw
#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "retile/base/scanner.h"
#include "retile/drawing/html.h"
#include "retile/drawing/rechunk_picture.h"
#include "retile/drawing/svg.h"
#include "retile/drawing/text.h"
#include "retile/plan/text.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/plan_file.h"

namespace retile::command {
namespace draw_command {

constexpr const char* examples =
    R"(Draws the array before and after each step as tiles in the colours of the devices that hold them, who
sends what to whom, and what every device holds, compared with what it may hold. An HTML page is complete in
itself: arrow keys step through it, space plays it, and it prints. Instead of SRC and DST, a file of plans may
be given.

Examples:
  in the terminal
    retile draw --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]'
  a page to look at, with what XLA would do beside it
    retile draw --mesh x=4,y=2 '[1{y,x}8, 8, 8]' '[8, 4{y}8, 2{x}8]' --beside xla --out plan.html
  a plan from a file
    retile plan --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' --json | retile draw - --out plan.svg
  how an array in files is rechunked: its chunks, and the regions that are filled at once
    echo '{"zarr_format": 2, "shape": [365, 90, 180], "chunks": [1, 90, 180], "dtype": "<f4", "order": "C", "filters": null, "compressor": null, "fill_value": 0}' |
      install -D /dev/stdin maps.zarr/.zarray && retile rechunk maps.zarr series.zarr --chunks 365,10,10 --dry-run --json | retile draw - --out rechunk.svg
  one step of it, with the first dimension as rows and the third as columns
    retile draw --mesh x=4,y=2 '[1{y,x}8, 8, 8]' '[8, 4{y}8, 2{x}8]' --planner paper --step 2 --dimensions 0,2 --as text)";

constexpr std::string_view format_names = "html, svg, text";

struct Arguments {
  ProblemArguments problem;
  std::optional<std::string> format;
  std::optional<std::string> path;
  std::optional<std::string> dimensions;
  std::optional<std::string> step;
  std::optional<std::string> beside;
};

// The requested format, or the one that the file's name implies.
std::string format_of(const Arguments& arguments) {
  if (arguments.format) return *arguments.format;
  if (!arguments.path) return isatty(fileno(stdout)) != 0 ? "text" : "html";
  for (const auto& [ending, format] :
       {std::pair{".html", "html"}, {".htm", "html"}, {".svg", "svg"}, {".txt", "text"}}) {
    if (arguments.path->ends_with(ending)) return format;
  }
  throw UsageError(
      fmt::format("'{}' ends in none of .html, .svg and .txt; name the format, as in --as svg", *arguments.path));
}

SourceText dimensions_text(const Arguments& arguments) { return {"argument --dimensions", *arguments.dimensions}; }

struct ChosenView {
  drawing::View view;
  std::vector<SourceRange> places;  // of the dimensions in their text
};

ChosenView parse_view(const SourceText& text) {
  Scanner scanner(text);
  ChosenView chosen;
  do {
    const std::int64_t dimension = scanner.index("a dimension");
    chosen.view.dimensions.push_back(static_cast<int>(std::min<std::int64_t>(dimension, 1 << 30)));
    chosen.places.push_back(scanner.last());
  } while (scanner.accept(","));
  scanner.expect_end("dimensions");
  return chosen;
}

class Artist {
 public:
  explicit Artist(const Arguments& arguments) : arguments_(arguments), format_(format_of(arguments)) {
    if (arguments.step && format_ == "html")
      throw UsageError("--step goes with --as svg or text: a page has all steps");
    if (arguments.dimensions) chosen_ = parse_view(dimensions_text(arguments));
  }

  void add(const Problem& problem, StatedElement element, const Plan& plan, const std::string& remarks) {
    drawing::Comparison comparison{scene_of(plan, element)};
    if (arguments_.beside) {
      ProblemArguments others = arguments_.problem;
      others.planner = *arguments_.beside;
      if (others.planner == xla_planner) {  // XLA's rules support neither
        others.memory_limit.reset();
        others.no_exchange = false;
      }
      add_beside(comparison, scene_of(plan_for(others, problem), element));
    }
    const std::optional<std::size_t> step = step_of(comparison.front());
    if (format_ == "text") {
      std::string text = remarks;
      for (const drawing::Scene& scene : comparison) {
        if (!step || *step < scene.steps.size()) text += drawing::to_text(scene, palette(), step);
      }
      texts_.push_back(std::move(text));
    } else {
      if (!remarks.empty()) write_remark(remarks);
      comparison.front().given = remarks;
      if (format_ == "svg") texts_.push_back(drawing::to_svg(comparison, step));
      comparisons_.push_back(std::move(comparison));
    }
  }

  void finish() const {
    if (comparisons_.empty() && texts_.empty()) return;  // faults were reported
    if (format_ == "svg" && texts_.size() > 1) {
      throw UsageError(fmt::format("an SVG shows one plan, and there are {}; --as html shows all", texts_.size()));
    }
    std::string all = format_ == "html" ? drawing::to_html(comparisons_) : "";
    for (const std::string& text : texts_) all += (all.empty() ? "" : "\n") + text;
    write_result_to(arguments_.path, all);
  }

 private:
  const Palette& palette() const { return arguments_.path ? plain : palette_of(stdout); }

  drawing::Scene scene_of(const Plan& plan, StatedElement element) const {
    drawing::Scene scene = drawing::make_scene(plan, element);
    if (!chosen_) return scene;
    if (const auto found = drawing::find_fault(scene, chosen_->view)) {
      throw InputError(diagnose(dimensions_text(arguments_), chosen_->places[found->index], found->fault));
    }
    scene.view = chosen_->view;
    return scene;
  }

  // The index of the requested step, from 0.
  std::optional<std::size_t> step_of(const drawing::Scene& scene) const {
    if (!arguments_.step) return std::nullopt;
    const std::size_t step = std::stoull(*arguments_.step);
    if (step <= scene.steps.size()) return step - 1;
    const SourceText text{"argument --step", *arguments_.step};
    throw InputError(
        diagnose(text, {0, text.text.size()}, fmt::format("there is no step {}", step),
                 fmt::format("the plan has {}", count_of(static_cast<std::int64_t>(scene.steps.size()), "step"))));
  }

  const Arguments& arguments_;
  const std::string format_;
  std::optional<ChosenView> chosen_;
  std::vector<drawing::Comparison> comparisons_;
  std::vector<std::string> texts_;
};

// The problem of a plan. Its element type matters only for planning what is drawn beside it.
Problem problem_of(const Plan& plan, StatedElement element) {
  return {plan.id, plan.source, plan.target, element.value_or(ElementType::f32)};
}

// Draws plans of `retile rechunk`, whose arrays are cut into chunks and held by no device.
int draw_rechunk(const Arguments& arguments, const std::vector<SourceText>& plans) {
  const std::string format = format_of(arguments);
  if (format == "text") throw UsageError("plans of retile rechunk are drawn as svg or html");
  if (arguments.step || arguments.beside || arguments.dimensions)
    throw UsageError("--step, --beside and --dimensions go with plans of devices, and these are of files");
  if (format == "svg" && plans.size() > 1)
    throw UsageError(fmt::format("an SVG shows one plan, and there are {}; --as html shows all", plans.size()));
  std::vector<drawing::RechunkScene> scenes;
  for (const SourceText& plan : plans) scenes.push_back(drawing::make_rechunk_scene(plan));
  write_result_to(arguments.path, format == "svg" ? drawing::to_svg(scenes.front()) : drawing::to_html(scenes));
  return done;
}

int run(const Arguments& arguments) {
  std::vector<SourceText> plans;
  if (is_plan_file(arguments.problem)) {
    plans = read_plans(arguments.problem);
    if (!plans.empty() && drawing::is_rechunk_plan(plans.front())) return draw_rechunk(arguments, plans);
  }
  Artist artist(arguments);
  int status = done;
  if (is_plan_file(arguments.problem)) {
    status = for_each_plan(arguments.problem, plans, [&](const StatedPlan& stated, StatedElement element) {
      artist.add(problem_of(stated.plan, element), element, stated.plan, "");
    });
  } else {
    status = for_each_problem(arguments.problem, "drawing", [&](const Problem& problem) {
      artist.add(problem, problem.element_type(), plan_for(arguments.problem, problem),
                 remarks_on(arguments.problem, problem));
    });
  }
  artist.finish();
  return status;
}

}  // namespace draw_command

void add_draw_command(Command app, int* status) {
  using namespace draw_command;
  const auto [command, arguments] =
      add_subcommand(app, "draw", "Draw a plan: a page, an SVG or text", examples, run, status);
  add_problem_options(command, arguments.problem, PlannerChoice::with_xla);
  add_value(command, "--as", arguments.format,
            "html, svg or text; by default as --out ends, otherwise text on a terminal and html elsewhere", "FORMAT",
            known_name(format_names));
  command.add_option("--out", arguments.path, "file to write, by default standard output").type_name("FILE");
  command
      .add_option("--dimensions", arguments.dimensions,
                  "up to three to draw: layers, rows and columns, e.g. 0,2; by default those that are cut")
      .type_name("LIST");
  add_value(command, "--step", arguments.step, "with svg and text: this step alone, before and after, from 1", "N",
            whole_number(1, 1 << 30));
  add_value(command, "--beside", arguments.beside, "draw this planner's plan beside it, or what XLA's rules do: xla",
            "NAME", known_name(std::string(planner_names) + ", xla"));
}

}  // namespace retile::command
