# Completion of palaver's command line for fish: subcommands, models by name, flags, files.
complete -c palaver -n __fish_use_subcommand -a 'inspect tokenize perplexity bench tune list pull use config help'
complete -c palaver -a '(palaver list --names 2>/dev/null)'
complete -c palaver -n 'string match -q -- "-*" (commandline -ct)' \
    -a "(palaver --help 2>/dev/null | string match -r -a -- '--[a-z][a-z_-]*' | sort -u)"
