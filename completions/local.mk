# SPDX-License-Identifier: Apache-2.0
# Shells look for the completion of a program in a file of this name, each in a folder
# of its own.
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
fishcompletiondir = $(datadir)/fish/vendor_completions.d

dist_bashcompletion_DATA = completions/pystack
dist_zshcompletion_DATA = completions/_pystack
dist_fishcompletion_DATA = completions/pystack.fish
