// What the command writes: results to standard output, what is wrong to standard error.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "retile/base/diagnostic.h"

namespace retile::command {

// --color, for every subcommand.
void add_color_option(CLI::App& command);

// The colours of what is written there: none unless it is a terminal, or they are asked for.
const Palette& palette_of(std::FILE* file);

// Writes a result, or the rest of one, at once: whoever waits for it sees it before the next one is made.
void write_result(std::string_view text);
// Writes what is no whole result yet.
void write_part(std::string_view text);

// Writes a result to a file, once in a job; to standard output where none is named. Throws RuntimeError where that
// cannot be.
void write_result_to(const std::optional<std::string>& path, std::string_view text);

// Writes to standard error what is worth knowing beside the result.
void write_remark(const std::string& text);

// Writes what went wrong, and returns the status.
int fail(int status, const std::string& message);

// Does the work and returns the exit status. Of what it throws, all is reported but bugs in retile and, without a line,
// faults of the usage. What has no place of its own is reported at the line that the work is about.
int attempt(const std::function<int()>& work, const SourceText* line = nullptr);

}  // namespace retile::command
