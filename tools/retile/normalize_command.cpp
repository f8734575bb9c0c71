// retile normalize
#include <fmt/format.h>

#include <string>

#include "retile/collectives/rewriting.h"
#include "retile/plan/text.h"
#include "retile/types/text.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/output.h"

namespace retile::command {
namespace normalize_command {

std::string summary(const Sequence& sequence) {
  return fmt::format("{}, height {}, cost {}", count_of(static_cast<std::int64_t>(sequence.size()), "step"),
                     height(sequence), cost(sequence));
}

// Normalizes the sequence. Prints every rewriting as it is made, as comments, then the result: the whole output is a
// sequence file again.
void render_normalization(const Sequence& sequence, const std::function<void(const std::string&)>& print) {
  print(fmt::format("// input: {}\n", summary(sequence)));
  int number = 0;
  const Sequence result = normalize(sequence, [&](const Rewriting& rewriting) {
    print(fmt::format("// {}. {}: height {} -> {}\n", ++number, rewriting.rule, rewriting.height_before,
                      rewriting.height_after));
    const Sequence& added = rewriting.added;
    print(fmt::format("//      {}\n", to_string(added.source())));
    for (std::size_t i = 0; i < added.size(); ++i) {
      print(fmt::format("//      -> {} {}\n", to_string(added.mesh(), added.steps()[i]),
                        to_string(added.types()[i + 1])));
    }
  });
  print(fmt::format("// normal form: {}\n{}", summary(result), to_string(result)));
}

constexpr const char* examples =
    R"(A sequence file is a mesh, a type, then one step a line; the type after a step may be left out except
after allpermute:

  mesh {"x": 4, "y": 4}
  [32{x,y}512, 128]
  -> allpermute [32{y,x}512, 128]
  -> alltoall(0 -> 1; y) [128{x}512, 32{y}128]
  -> allgather(0; x)
  -> dynslice(0; x)

Steps: dynslice(DIM; AXES), alltoall(FROM -> TO; AXES), allgather(DIM; AXES), allpermute TYPE; several
changes are separated by commas. A factor may stand for the axes, as in plans, and AXES may be left out of
alltoall and allgather for the most minor axis. The rewriting removes peaks and moves edges by the paper's
Peak and Edges Lemmas until the sequence is in normal form, dynslice* {alltoall|allpermute}* allgather*.
Each rewriting is printed as a comment, so that the output is a sequence file again.

Examples:
  retile plan --planner gather-slice --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' | retile normalize -
  printf '%s\n' 'mesh {x: 4}' '[2{x}8, 8]' '-> allgather(0; x)' '-> dynslice(1; x)' | retile normalize -)";

struct Arguments {
  std::string path;
};

int run(const Arguments& arguments) {
  render_normalization(parse_sequence(read_file(arguments.path)), write_result);
  return done;
}

}  // namespace normalize_command

void add_normalize_command(Command app, int* status) {
  using namespace normalize_command;
  const auto [command, arguments] =
      add_subcommand(app, "normalize", "Rewrite a sequence of collectives into normal form", examples, run, status);
  command.add_option("SEQUENCE", arguments.path, "sequence file; - is standard input").required().type_name("");
}

}  // namespace retile::command
