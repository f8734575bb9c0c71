# Completes retile's arguments in bash. retile itself knows them; where it knows none, files are completed.
_retile() {
  mapfile -t COMPREPLY < <("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)
}
complete -o default -F _retile retile
