package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/clockd/clockd/clock"
)

// completionCommand prints a script that makes a shell complete commands, flags and values. The script calls clockd
// complete, so it fits every version of clockd.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help returns the text after the flags.
func (*completionCommand) Help() string {
	return "bash: source <(clockd completion bash)\n\nzsh: source <(clockd completion zsh)\n\nfish: clockd completion fish | source"
}

// Run prints the script.
func (c *completionCommand) Run() error {
	_, err := fmt.Fprint(stdout, completionScripts[c.Shell])
	return err
}

// completionScripts are the scripts by shell. Each runs clockd complete with the words up to the cursor, and reads
// lines of a word, a tab and a description. The line ":files" stands for names of files.
var completionScripts = map[string]string{
	"bash": `# Completion of clockd for bash. Load it with: source <(clockd completion bash)
_clockd() {
	local line
	COMPREPLY=()
	while IFS= read -r line; do
		if [[ $line == :files ]]; then
			compopt -o default 2>/dev/null
		else
			COMPREPLY+=("${line%%$'\t'*}")
		fi
	done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _clockd clockd
`,
	"zsh": `#compdef clockd
# Completion of clockd for zsh. Load it with: source <(clockd completion zsh)
_clockd() {
	local line
	local -a found
	for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		if [[ $line == :files ]]; then
			_files
		elif [[ -n $line ]]; then
			found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
		fi
	done
	(( $#found )) && _describe clockd found
}
if [[ ${funcstack[1]} == _clockd ]]; then
	_clockd
else
	compdef _clockd clockd
fi
`,
	"fish": `# Completion of clockd for fish. Load it with: clockd completion fish | source
function __clockd_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	for line in ($words[1] complete -- $words[2..-1] "$current" 2>/dev/null)
		if test "$line" = ":files"
			__fish_complete_path "$current"
		else
			echo $line
		end
	end
end
complete -c clockd -f -a '(__clockd_complete)'
`,
}

// completeCommand prints the completions of the last word, for the scripts.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"Words after clockd, up to the cursor. The last one may be empty."`
}

// Run prints one line for each completion.
func (c *completeCommand) Run(parser *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, candidate := range completions(parser.Model.Node, words) {
		if _, err := fmt.Fprintln(stdout, candidate); err != nil {
			return err
		}
	}
	return nil
}

// files is the completion that stands for names of files.
const files = ":files"

// completions returns what may stand in the place of the last word, each with a tab and a description if it has one.
func completions(root *kong.Node, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	line := commandLine{node: root}
	for _, word := range words[:len(words)-1] {
		if !line.read(word) {
			return nil
		}
	}
	return line.complete(words[len(words)-1])
}

// commandLine is the part of a command line that was read.
type commandLine struct {
	node        *kong.Node
	arguments   int        // arguments of the node that were read
	pending     *kong.Flag // flag whose value is the next word; nil: none
	onlyOperand bool       // "--" was read: no flag follows
}

// read reads the next word. It returns false for a word after which nothing can be completed.
func (l *commandLine) read(word string) bool {
	switch {
	case word == "=": // bash splits --flag=value into three words
		return true
	case l.pending != nil:
		l.pending = nil
		return true
	case word == "--" && !l.onlyOperand:
		l.onlyOperand = true
		return true
	case strings.HasPrefix(word, "-") && !l.onlyOperand:
		name, _, whole := strings.Cut(word, "=")
		if flag := l.flag(name); flag != nil && !flag.IsBool() && !whole {
			l.pending = flag
		}
		return true
	case word == "help" && l.node.Parent == nil: // another command follows
		return true
	case l.arguments < len(l.node.Positional):
		if !l.node.Positional[l.arguments].IsCumulative() {
			l.arguments++
		}
		return true
	}
	for _, child := range l.node.Children {
		if child.Name == word || slices.Contains(child.Aliases, word) {
			l.node, l.arguments = child, 0
			return true
		}
	}
	return false
}

// complete returns the completions of a word that begins with the text.
func (l *commandLine) complete(text string) []string {
	name, value, whole := strings.Cut(text, "=")
	switch {
	case text == "=" && l.pending != nil:
		return valuesOf(l.pending.Value, "", "")
	case l.pending != nil:
		return valuesOf(l.pending.Value, "", text)
	case strings.HasPrefix(text, "-") && !l.onlyOperand && whole:
		if flag := l.flag(name); flag != nil {
			return valuesOf(flag.Value, name+"=", value)
		}
		return nil
	case strings.HasPrefix(text, "-") && !l.onlyOperand:
		return l.flagNames(text)
	case l.arguments < len(l.node.Positional):
		return valuesOf(l.node.Positional[l.arguments], "", text)
	}
	var found []string
	for _, child := range l.node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, text) {
			found = append(found, described(child.Name, child.Help))
		}
	}
	return found
}

// flags returns the flags that may be given here. Those of the default command need no command before them.
func (l *commandLine) flags() (all []*kong.Flag) {
	node := l.node
	if node.DefaultCmd != nil {
		node = node.DefaultCmd
	}
	for _, group := range node.AllFlags(true) {
		all = append(all, group...)
	}
	return all
}

// flag returns the flag with the name, with its hyphens; nil if there is none.
func (l *commandLine) flag(name string) *kong.Flag {
	for _, flag := range l.flags() {
		if name == "--"+flag.Name || flag.Short != 0 && name == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

func (l *commandLine) flagNames(prefix string) (found []string) {
	for _, flag := range l.flags() {
		if name := "--" + flag.Name; strings.HasPrefix(name, prefix) {
			found = append(found, described(name, flag.Help))
		}
	}
	slices.Sort(found)
	return found
}

// valuesOf returns the values of a flag or an argument that begin with the text, each with head before it. The elements
// of a list are completed after its last comma.
func valuesOf(v *kong.Value, head, text string) (found []string) {
	known := v.EnumSlice()
	switch listed := v.Tag.Get("values"); listed {
	case "":
	case "targets":
		known = clock.TargetNames()
	default:
		known = strings.Split(listed, ",")
	}
	if v.Target.Kind() == reflect.Slice {
		i := strings.LastIndex(text, ",") + 1
		head, text = head+text[:i], text[i:]
	}
	for _, value := range known {
		if value != "" && strings.HasPrefix(value, text) {
			found = append(found, head+value)
		}
	}
	if isFile(v) {
		found = append(found, files)
	}
	return found
}

// isFile reports whether the value is the name of a file or directory.
func isFile(v *kong.Value) bool {
	placeholder := v.Tag.PlaceHolder
	return v.Tag.Type == "existingfile" || v.Tag.Type == "path" || placeholder == "FILE" || placeholder == "DIR"
}

// described returns a completion with the first sentence of its help.
func described(word, help string) string {
	sentence, _, _ := strings.Cut(help, ". ")
	return word + "\t" + strings.TrimSuffix(sentence, ".")
}
