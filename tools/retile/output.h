// The command's output: results to standard output, errors to standard error.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "retile/base/diagnostic.h"
#include "tools/retile/options.h"

namespace retile::command {

// Adds --color, which every subcommand has.
void add_color_option(Command command);

// The colours for a file: none unless it is a terminal, or colours are requested.
const Palette& palette_of(std::FILE* file);

// Writes a result, or the rest of one, and flushes it, so that it is seen before the next one is made.
void write_result(std::string_view text);
// Writes a part of a result, without flushing.
void write_part(std::string_view text);

// Writes a result to a file, once in a job; to standard output where no file is named. Throws RuntimeError where it
// cannot be written.
void write_result_to(const std::optional<std::string>& path, std::string_view text);

// Writes a remark beside the result to standard error.
void write_remark(const std::string& text);

// Writes an error, and returns the status.
int fail(int status, const std::string& message);

// Does the work and returns the exit status. Reports what it throws, except for bugs in retile and, without a line,
// usage errors. An error without a place of its own is reported at the line.
int attempt(const std::function<int()>& work, const SourceText* line = nullptr);

}  // namespace retile::command
