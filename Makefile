# What a person types. The rules behind `lint` and `bench` are in xtask.

CARGO ?= cargo

.PHONY: all setup build pgo test wheel lint bench demo

all: build

# Installs the system packages that are missing.
setup:
	scripts/setup

# The program, and what the recorder loads into other programs.
build: setup
	$(CARGO) build --release --workspace --exclude xtask

# The program again, built by a profile of its own work: minutes. Needs `rustup component add llvm-tools`.
pgo: build
	$(CARGO) xtask pgo

# The end-to-end tests record real programs with what this builds: overflow of an integer is an error in it. Tests are
# compiled beside the last crates, which wait for each other.
test: setup
	$(CARGO) build --workspace --lib --bins --tests
	$(CARGO) test --workspace --no-fail-fast
	scripts/test-python

# The Python wheel for any Linux with glibc 2.28, into target/wheels: minutes. Needs Python 3.10 or newer.
wheel: setup
	scripts/wheel --portable

lint:
	$(CARGO) xtask lint

bench: build
	$(CARGO) xtask bench

# The program and what it loads into recorded programs: no Python module, no tests, no tools of the project.
PROGRAM = hitm-cli hitm-qemu-api1 hitm-qemu-api2 hitm-heap hitm-clock hitm-locks

# Records the packed and the padded example and shows what hitm says, with the build that tests use.
demo: setup
	$(CARGO) build $(addprefix --package ,$(PROGRAM))
	scripts/demo
