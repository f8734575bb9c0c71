// What the programs here have in common: arguments, errors and exit statuses as the command has them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"

namespace retile::bench {

template <typename Arguments>
struct Program {
  const char* name;
  const char* about;
  void (*declare)(CLI::App& app, Arguments& arguments);
  void (*run)(const Arguments& arguments);
};

template <typename Arguments>
int run_program(const Program<Arguments>& program, int argument_count, char** given) {
  try {
    CLI::App app(program.about, program.name);
    Arguments arguments;
    program.declare(app, arguments);
    try {
      app.parse(argument_count, given);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : 2;
    }
    program.run(arguments);
    return 0;
  } catch (const InputError& error) {
    std::fputs(to_string(error.diagnostic()).c_str(), stderr);
    return 1;
  } catch (const RuntimeError& error) {
    std::fprintf(stderr, "%s: %s\n", program.name, error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: this is a bug in retile: %s\n", program.name, error.what());
    return 70;
  }
}

}  // namespace retile::bench
