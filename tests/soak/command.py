"""The retile command as cases see it, and what they say where it fails."""

import json
import re
import subprocess


class Failure(Exception):
    """What was expected of the command and did not happen, with a command that shows it."""

    def __init__(self, words, command):
        super().__init__(words)
        self.command = command


class Retile:
    """The command under test."""

    def __init__(self, path, mpirun):
        self.path = path
        self.mpirun = mpirun

    def run(self, arguments, text="", ranks=0, timeout=120):
        command = [self.path, *arguments]
        if ranks:
            command = [*self.mpirun, "-np", str(ranks), *command]
        try:
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise Failure(f"no end after {timeout} s", shown(command, text)) from None
        if done.returncode not in (0, 1, 2, 3):
            raise Failure(f"exit status {done.returncode}: {done.stderr[-800:]}", shown(command, text))
        return done

    def lines(self, arguments, text="", ranks=0):
        """The JSON lines of a run that must succeed."""
        done = self.run(arguments, text, ranks)
        if done.returncode != 0:
            command = shown([self.path, *arguments], text, ranks)
            raise Failure(f"exit status {done.returncode}: {done.stderr[-800:]}", command)
        return [json.loads(line) for line in done.stdout.splitlines()]


def shown(command, text, ranks=0):
    launcher = f"mpirun -np {ranks} " if ranks else ""
    quoted = " ".join(part if re.fullmatch(r"[\w./:,=@+-]+", part) else "'" + part + "'" for part in command)
    return (f"echo '{text.strip()}' | " if text.strip() else "") + launcher + quoted


def problem_text(problems):
    return "".join(json.dumps(problem) + "\n" for problem in problems)


def lines_of(retile, arguments, problems, ranks=0):
    """The JSON lines of a run that must succeed; where it does not, of the problem that makes it fail."""
    try:
        return retile.lines(arguments, problem_text(problems), ranks)
    except Failure:
        for problem in problems if len(problems) > 1 else ():
            retile.lines(arguments, problem_text([problem]), ranks)
        raise


class Counts(dict):
    def add(self, name, count=1):
        self[name] = self.get(name, 0) + count
