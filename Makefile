# Two commands on a fresh machine: `make demo` and `make test`. Everything else is cargo's business.

PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
DESTDIR    ?=

# rustup installs here; a shell that was opened before does not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

CARGO  ?= cargo
STRAIT := target/release/strait
# The licences of the libraries in the binary, which go with it.
NOTICES := target/release/THIRD-PARTY

# The binary has no path of the machine that built it, so that two builds in two folders are equal (scripts/reproducible).
CARGO_HOME ?= $(HOME)/.cargo
RELEASE := RUSTFLAGS='--remap-path-prefix=$(CURDIR)=/strait --remap-path-prefix=$(CARGO_HOME)=/cargo' \
    CFLAGS='-ffile-prefix-map=$(CURDIR)=/strait -ffile-prefix-map=$(CARGO_HOME)=/cargo' \
    $(CARGO) build --release --package strait

.PHONY: help demo test build install uninstall clean

help:
	@echo 'make demo      an IPv6-only client reaches an IPv4-only server, beside plain forwarding (root)'
	@echo 'make test      everything that this machine can test; the rest is reported as skipped'
	@echo 'make build     target/release/strait'
	@echo 'make install   the binary, completions, manual pages and systemd units below PREFIX ($(PREFIX))'
	@echo 'make uninstall remove them; configuration files stay'
	@echo 'make clean     remove what was built'
	@echo
	@echo 'demo, test and build install what is missing when run as root on Debian or Ubuntu.'

demo:
	@scripts/prepare demo
	@$(RELEASE)
	@scripts/demo $(STRAIT)

test:
	@scripts/prepare test
	@scripts/test

build:
	@scripts/prepare build
	$(RELEASE)
	@scripts/notices > $(NOTICES)

# Builds nothing: `make build` as yourself, then `sudo make install`.
install:
	@test -x $(STRAIT) -a -s $(NOTICES) || { echo 'make install: run `make build` first' >&2; exit 1; }
	install -D -m 755 $(STRAIT) $(DESTDIR)$(PREFIX)/bin/strait
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(STRAIT) man $(DESTDIR)$(PREFIX)/share/man/man1
	$(STRAIT) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/strait
	$(STRAIT) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_strait
	$(STRAIT) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/strait.fish
	install -d $(DESTDIR)$(PREFIX)/share/doc/strait
	install -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/strait/LICENSE
	install -m 644 $(NOTICES) $(DESTDIR)$(PREFIX)/share/doc/strait/THIRD-PARTY
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(SYSCONFDIR)/strait/nat64
	sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' dist/systemd/strait-nat64@.service \
	    > $(DESTDIR)$(PREFIX)/lib/systemd/system/strait-nat64@.service

# What `install` has put there. Running translators and their configuration are left alone.
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/strait $(DESTDIR)$(PREFIX)/lib/systemd/system/strait-nat64@.service \
	    $(DESTDIR)$(PREFIX)/share/man/man1/strait.1 $(DESTDIR)$(PREFIX)/share/man/man1/strait-*.1 \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions/strait \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_strait $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/strait.fish
	rm -f $(DESTDIR)$(PREFIX)/share/doc/strait/LICENSE $(DESTDIR)$(PREFIX)/share/doc/strait/THIRD-PARTY
	@rmdir $(DESTDIR)$(PREFIX)/share/doc/strait $(DESTDIR)$(SYSCONFDIR)/strait/nat64 $(DESTDIR)$(SYSCONFDIR)/strait 2>/dev/null || true

clean:
	$(CARGO) clean
