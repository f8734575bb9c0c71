# Completes retile's arguments in fish. retile itself knows them; where it knows none, files are completed.
function __retile_complete
    set -l found (retile complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
    if test -n "$found"
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c retile -f -a '(__retile_complete)'
