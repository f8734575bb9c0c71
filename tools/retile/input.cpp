#include "tools/retile/input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "retile/base/json_values.h"
#include "retile/base/scanner.h"
#include "retile/base/utf8.h"
#include "retile/contenders/xla_rules.h"
#include "retile/interchange/problem_json.h"
#include "retile/pipeline.h"
#include "retile/planner/memory_limit.h"
#include "retile/planner/relabelling.h"
#include "retile/planner/work_budget.h"
#include "retile/types/element_type.h"
#include "retile/types/text.h"
#include "tools/retile/command.h"
#include "tools/retile/job.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/progress.h"

namespace retile::command {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail_to_read(const std::string& path) {
  throw InputError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)), {});
}

enum class ZeroBytes { end_text, are_spaces };

// Reads everything; with ZeroBytes::end_text only up to the first block with a zero byte, after which it is no text.
std::string read_all(std::FILE* file, const std::string& path, ZeroBytes zeros) {
  std::string text;
  std::vector<char> buffer(1U << 16U);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file)) {
    text.append(buffer.data(), count);
    if (zeros == ZeroBytes::end_text && std::memchr(buffer.data(), 0, count) != nullptr) break;
  }
  if (zeros == ZeroBytes::are_spaces) std::replace(text.begin(), text.end(), '\0', ' ');
  if (std::ferror(file) != 0) fail_to_read(path);
  return text;
}

std::string read_bytes(const std::string& path, ZeroBytes zeros) {
  if (path == "-") return read_all(stdin, "standard input", zeros);
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) fail_to_read(path);
  return read_all(file.get(), path, zeros);
}

SourceText read_text(const std::string& path, ZeroBytes zeros) {
  return {path == "-" ? "standard input" : path, read_in_job([&] { return read_bytes(path, zeros); })};
}

SourceText source_text(const ProblemArguments& arguments) { return {"argument SRC", *arguments.source}; }
SourceText target_text(const ProblemArguments& arguments) { return {"argument DST", *arguments.target}; }

// Whether layouts are in a notation of another system.
bool is_foreign(const ProblemArguments& arguments) {
  const auto is = [](const std::optional<std::string>& text) {
    return text && interchange::recognise_notation(*text).has_value();
  };
  return is(arguments.source) || is(arguments.target);
}

Problem foreign_problem(const ProblemArguments& arguments) {
  const interchange::ArrayText array = *given_array(arguments);
  const auto mesh = given_mesh(arguments);
  const SourceText target = target_text(arguments);
  interchange::Ends ends = arguments.is_local_shape
                               ? interchange::parse_local_ends(source_text(arguments), target, array.shape, mesh).ends
                               : interchange::parse_ends(source_text(arguments), target, array.shape, mesh);
  if (ends.source.is_partial() && !array.can_be_added) {
    const SourceText shape{"argument --shape", *arguments.shape};
    throw InputError(diagnose(shape, {0, array.element_name.size()},
                              fmt::format("parts of {} cannot be combined", array.element_name),
                              fmt::format("retile combines {}", combined_element_type_names)));
  }
  if (auto fault = Problem::find_fault(ends.source, ends.target, array.element_type)) {
    throw InputError(diagnose(target, {0, target.text.size()}, *fault));
  }
  return {{}, std::move(ends.source), std::move(ends.target), array.element_type};
}

// The problem that the arguments themselves describe.
Problem problem_of(const ProblemArguments& arguments) {
  if (is_foreign(arguments)) return foreign_problem(arguments);
  const SourceText mesh{"argument --mesh", *arguments.mesh};
  std::optional<SourceText> target_mesh;
  if (arguments.target_mesh) target_mesh = {"argument --target-mesh", *arguments.target_mesh};
  return parse_problem(mesh, source_text(arguments), target_text(arguments),
                       *find_element_type(arguments.element_type.value_or("f32")), target_mesh);
}

SourceText memory_limit_text(const ProblemArguments& arguments) {
  return {"argument --memory-limit", *arguments.memory_limit};
}

MemoryLimit memory_limit_of(const ProblemArguments& arguments) {
  return parse_memory_limit(memory_limit_text(arguments));
}

void check_foreign_usage(const ProblemArguments& arguments) {
  if (!arguments.shape) {
    throw UsageError(
        "shardings of other systems need --shape, as in --shape 'f32[16,1024,4096]'; a type of retile begins with [");
  }
  if (arguments.element_type) throw UsageError("--shape has the element type: leave out --dtype");
  if (arguments.target_mesh) throw UsageError("--target-mesh goes with types of retile");
}

void add_cost_options(Command command, ProblemArguments& arguments, CostChoice choice) {
  std::string names = cost_model_names();
  std::string description = "paper: elements sent per device, the default; volume: the most that a device receives";
  if (choice == CostChoice::seconds_too) {
    names += ", seconds";
    description += ";\nseconds: predicted on --machine, and the default with it";
    command
        .add_option("--machine", arguments.machine,
                    "a file that says which devices are on which host and how fast bytes move\n"
                    "(docs/machines.md): plans are timed, and auto takes the fastest")
        .type_name("FILE");
  }
  command.add_option("--cost", arguments.cost_model, description).check(known_name(names)).type_name("MODEL");
}

void check_usage(const ProblemArguments& arguments) {
  planner_options(arguments);
  const bool types = arguments.source || arguments.target;
  if (arguments.problems) {
    if (arguments.mesh || arguments.target_mesh || types || arguments.shape) {
      throw UsageError("--problems cannot be combined with --mesh, SRC or DST");
    }
    if (arguments.element_type) throw UsageError("--dtype goes with SRC and DST; in a file, each problem has its own");
    return;
  }
  if (arguments.is_local_shape && !arguments.shape) throw UsageError("--local-shape goes with --shape");
  if (!arguments.mesh && !types) throw UsageError("nothing to do: give --mesh, SRC and DST, or --problems FILE");
  if (!arguments.source || !arguments.target) throw UsageError("SRC and DST are both needed");
  if (arguments.source->starts_with("[") && arguments.source->ends_with(",")) {
    throw UsageError(fmt::format("SRC ends with a comma: {}{}", *arguments.source, quoting_advice));
  }
  if (is_foreign(arguments)) return check_foreign_usage(arguments);
  if (arguments.shape) throw UsageError("--shape goes with shardings of other systems; a type of retile has its own");
  if (!arguments.mesh) throw UsageError("SRC and DST need --mesh, as in --mesh a=2,b=2");
}

// The notation in which source and target are also printed. For a relabelled target it is the one that it was given in.
std::optional<interchange::Notation> notation_of_remarks(const ProblemArguments& arguments) {
  if (arguments.notation) return interchange::find_notation(*arguments.notation);
  return arguments.relabel && arguments.target ? interchange::recognise_notation(*arguments.target) : std::nullopt;
}

// The problem as it is planned. A relabelling is remarked on.
Problem prepared(const ProblemArguments& arguments, Problem problem) {
  if (!arguments.relabel) return problem;
  const Relabelling relabelling = relabel(problem, plan_options(arguments, problem));
  write_remark(printable(to_string(relabelling)) + "\n");
  return relabelling.problem;
}

}  // namespace

SourceText read_file(const std::string& path) {
  SourceText file = read_text(path, ZeroBytes::end_text);
  const std::size_t zero = file.text.find('\0');
  if (zero != std::string::npos)
    throw InputError(diagnose(file, {zero, zero + 1}, "this is not text: it has a zero byte"));
  return file;
}

SourceText read_log(const std::string& path) { return read_text(path, ZeroBytes::are_spaces); }

std::vector<SourceText> read_values(const std::string& path, const std::string& what) {
  return split_objects(read_file(path), what);
}

void add_problem_options(Command command, ProblemArguments& arguments, PlannerChoice choice) {
  command
      .add_option(
          "SRC", arguments.source,
          "type of the array as it is, e.g. '[4{a}8, 16]'; or a sharding as XLA, JAX, Shardy, DTensor or MLIR print it")
      .type_name("");
  command.add_option("DST", arguments.target, "type of the array as it is wanted").type_name("");
  command
      .add_option("--shape", arguments.shape,
                  "shape and element type of the array, for shardings that do not have them, e.g. 'f32[16,1024]'")
      .type_name("ARRAY");
  command.add_flag("--local-shape", arguments.is_local_shape,
                   "with --shape: the shape is that of a source tile, not of the array");
  add_value(command, "--notation", arguments.notation,
            fmt::format("print source and target in this notation too: {}", interchange::notation_names), "NAME",
            known_name(interchange::notation_names));
  command.add_option("--mesh", arguments.mesh, "axes and their sizes, e.g. a=2,b=2,c=2").type_name("AXES");
  command.add_option("--target-mesh", arguments.target_mesh, "axes of the target's mesh, if it differs")
      .type_name("AXES");
  command.add_option("--problems", arguments.problems, "file with one problem a line as JSON; - is standard input")
      .type_name("FILE");
  add_value(command, "--dtype", arguments.element_type,
            fmt::format("element type of SRC and DST, f32 by default: {}", element_type_names), "TYPE",
            known_name(element_type_names));
  command.add_flag("--relabel", arguments.relabel,
                   "choose the order of the target's devices in which they keep the most elements,\n"
                   "or on a --machine the order that takes the least time");
  add_planner_options(command, arguments, choice, CostChoice::seconds_too);
  command
      .add_option("--memory-limit", arguments.memory_limit,
                  "most that a device may hold at once in a run, its source and target tiles included:\n"
                  "bytes (4096, 512MiB), or a factor of the larger of the two (2.5x)")
      .type_name("LIMIT");
}

void add_planner_options(Command command, ProblemArguments& arguments, PlannerChoice choice, CostChoice costs) {
  const bool has_xla = choice == PlannerChoice::with_xla;
  const bool has_machine = costs == CostChoice::seconds_too;
  std::string names(planner_names);
  if (!has_machine) names.erase(names.find(", two-level"));
  add_value(command, "--planner", arguments.planner,
            std::string("auto: the cheapest plan that fits the memory limit, wide's where costs are equal;\n"
                        "wide: at most one slice, exchange and gather, over several dimensions at once;\n"
                        "paper: the paper's collectives, one dimension at a time; direct: one exchange;\n") +
                std::string(has_machine ? "two-level: an exchange inside the hosts of --machine and one across them;\n"
                                        : "") +
                "lean: the one of these whose run takes the least memory;\n"
                "gather-slice: gather everything, then slice" +
                std::string(has_xla ? ";\nxla: what XLA's rules do, by a model of them" : ""),
            "NAME", known_name(names + (has_xla ? ", xla" : "")));
  add_cost_options(command, arguments, costs);
  command.add_flag("--no-exchange", arguments.no_exchange,
                   "wide plans without exchanges, for targets that cannot address single peers");
  add_value(command, "--effort", arguments.effort,
            "work that may be spent on a plan: 1 takes 100 ms at most on meshes up to 100,000 devices,\n"
            "more may find a cheaper plan or prove that there is none",
            "FACTOR", number_between(0.001, WorkBudget::most_effort));
}

const Machine& machine_of(const std::string& path) {
  static std::map<std::string, Machine> machines;
  const auto known = machines.find(path);
  if (known != machines.end()) return known->second;
  return machines.emplace(path, parse_machine(read_file(path))).first->second;
}

PlanOptions planner_options(const ProblemArguments& arguments) {
  if (arguments.no_exchange && arguments.planner == "direct") {
    throw UsageError("--no-exchange and --planner direct contradict each other: direct is one exchange");
  }
  if (arguments.planner == name_of(PlannerKind::two_level)) {
    if (!arguments.machine)
      throw UsageError("--planner two-level needs a machine: add --machine FILE (docs/machines.md)");
    if (arguments.no_exchange) throw UsageError("--no-exchange and --planner two-level contradict each other");
  }
  if (arguments.planner == xla_planner && (arguments.memory_limit || arguments.no_exchange)) {
    throw UsageError("--planner xla supports neither --memory-limit nor --no-exchange");
  }
  if (arguments.planner == xla_planner && arguments.relabel) {
    throw UsageError("--relabel goes with planners of retile: XLA keeps the order of devices");
  }
  PlanOptions options;
  if (const auto planner = find_planner(arguments.planner)) options.planner = *planner;  // XLA's rules are none of ours
  if (arguments.machine) options = on_machine(machine_of(*arguments.machine), options);
  if (arguments.cost_model == "seconds" && !arguments.machine) {
    throw UsageError("--cost seconds needs a machine: add --machine FILE (docs/machines.md)");
  }
  if (arguments.cost_model && arguments.cost_model != "seconds") {
    options.cost_model = find_cost_model(*arguments.cost_model);
  }
  if (arguments.no_exchange) options.executor.transport = Executor::Transport::collectives;
  options.effort = arguments.effort;
  return options;
}

PlanOptions plan_options(const ProblemArguments& arguments, const Problem& problem) {
  PlanOptions options = planner_options(arguments);
  if (arguments.memory_limit) {
    options.memory_limit = bytes_of(memory_limit_of(arguments), problem);
  }
  return options;
}

Plan plan_for(const ProblemArguments& arguments, const Problem& problem, TileUse tiles, const Executor& executor) {
  PlanOptions options = plan_options(arguments, problem);
  options.tiles = tiles;
  options.executor = restricted_to(options.executor.transport, executor);
  if (arguments.planner != xla_planner) return make_plan(problem, options);
  if (options.machine != nullptr) require_devices(options.machine->machine(), problem.device_count());
  const bool is_timed = options.cost_model == options.machine;
  Plan plan = contenders::plan_by_xla_rules(problem, is_timed ? paper_model() : *options.cost_model);
  add_time(plan, options, bytes_of(problem.element_type()));
  return plan;
}

std::optional<interchange::PlacedMesh> given_mesh(const ProblemArguments& arguments) {
  if (!arguments.mesh) return std::nullopt;
  return interchange::parse_placed_mesh({"argument --mesh", *arguments.mesh});
}

std::optional<interchange::ArrayText> given_array(const ProblemArguments& arguments) {
  if (!arguments.shape) return std::nullopt;
  return interchange::parse_array({"argument --shape", *arguments.shape});
}

std::string remarks_on(const ProblemArguments& arguments, const Problem& problem) {
  std::string remarks;
  const auto remark = [&](const std::string& text) { remarks += fmt::format("// {}\n", printable(text)); };
  if (is_foreign(arguments)) {
    if (arguments.is_local_shape) {
      remark(fmt::format("{} per device, {} in all", *arguments.shape, to_string(problem.source().global_shape())));
    }
    remark(fmt::format("{} is {}", *arguments.source, describe(problem.source())));
    remark(fmt::format("{}{} is {}", *arguments.target, arguments.relabel ? ", relabelled," : "",
                       describe(problem.target())));
  }
  const std::optional<interchange::Notation> notation = notation_of_remarks(arguments);
  if (!notation) return remarks;
  const interchange::NotationText source = to_notation(problem.source(), *notation);
  const interchange::NotationText target = to_notation(problem.target(), *notation);
  const auto line = [&](const char* what, const std::string& text) {
    if (!text.empty()) remark(fmt::format("{} {}: {}", name_of(*notation), what, text));
  };
  line("mesh", source.mesh);
  line("source", source.layout);
  if (target.mesh != source.mesh) line("target mesh", target.mesh);
  line("target", target.layout);
  return remarks;
}

std::vector<SourceText> problem_lines(const std::string& path) { return read_values(path, "problems"); }

void require_at_most(std::size_t most, const std::vector<SourceText>& values, std::string_view what) {
  if (values.size() <= most) return;
  throw InputError(diagnose(values[most], {0, 0}, fmt::format("there are {} {} in this file", values.size(), what),
                            fmt::format("give {} at a time", most == 1 ? "one" : fmt::format("{}", most))));
}

int run_within_cap(const std::string& max_bytes, const std::function<int()>& run) {
  try {
    return run();
  } catch (const MemoryLimitError& error) {
    const SourceText text{"argument --max-bytes", max_bytes};
    throw InputError(diagnose(text, {0, text.text.size()}, error.diagnostic()));
  }
}

int for_each_problem(const ProblemArguments& arguments, std::string_view action,
                     const std::function<void(const Problem& problem)>& visit, std::size_t most) {
  check_usage(arguments);
  if (arguments.memory_limit) memory_limit_of(arguments);  // reports a mistake in it once, not for every problem
  if (!arguments.problems) {
    try {
      visit(prepared(arguments, problem_of(arguments)));
    } catch (const MemoryLimitError& error) {
      const SourceText limit = memory_limit_text(arguments);
      throw InputError(diagnose(limit, {0, limit.text.size()}, error.diagnostic()));
    }
    return done;
  }
  const std::vector<SourceText> lines = problem_lines(*arguments.problems);
  require_at_most(most, lines, "problems");
  Progress progress(std::string(action), lines.size());
  int status = done;
  for (const SourceText& line : lines) {
    const auto work = [&] { return visit(prepared(arguments, interchange::parse_problem(line))), done; };
    status = std::max(status, attempt(work, &line));
    progress.advance();
  }
  return status;
}

}  // namespace retile::command
