# Completion of palaver's command line for bash: subcommands, models by name, flags, files.
_palaver() {
    local line=${COMP_LINE:0:COMP_POINT} words
    local word=${line##*[[:space:]]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    if [[ $word == -* ]]; then
        words=$("$1" --help 2>/dev/null | grep -o -e '--[a-z][a-z_-]*' | sort -u)
    elif [[ $previous == -c || $previous == --config || $previous == --json-schema ]]; then
        words=
    else
        words=$("$1" list --names 2>/dev/null)
        ((COMP_CWORD > 1)) || words+=$'\ninspect\ntokenize\nperplexity\nbench\ntune\nlist\npull\nuse\nconfig\nhelp'
    fi
    local IFS=$'\n'
    [[ -z $words ]] || COMPREPLY=($(compgen -W "$words" -- "$word"))
    # bash takes a colon for the end of a word, and puts what it is given behind the last one.
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
    fi
}
complete -o default -F _palaver palaver
