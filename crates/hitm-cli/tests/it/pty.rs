//! Programs in a pseudo-terminal: keys go in, and the screen is read as a terminal would show it.

use hitm_test::process::{Child, Command};
use ratatui::layout::Size;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The longest time for anything that takes milliseconds on an idle host.
const PATIENCE: Duration = Duration::from_secs(90);

/// A program in a terminal of its own.
pub(crate) struct Pty {
    pub(crate) child: Child,
    keys: File,
    program_side: OwnedFd,
    shown: Arc<Mutex<Shown>>,
    reader: Option<JoinHandle<()>>,
}

struct Shown {
    terminal: vt100::Parser,
    bytes: Vec<u8>,
    has_hung_up: bool,
}

/// Milliseconds between the reader's checks for a terminal that is to be closed.
const LOOK_MILLIS: libc::c_int = 50;

/// Shows what the program writes, until the terminal has hung up.
fn read_all(mut output: File, shown: &Mutex<Shown>) {
    let mut part = [0; 4096];
    loop {
        let mut input = libc::pollfd {
            fd: output.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the kernel reads and writes the one description that is passed.
        let ready = unsafe { libc::poll(&raw mut input, 1, LOOK_MILLIS) };
        if shown.lock().expect("no reader panics").has_hung_up {
            return;
        }
        if ready < 1 {
            continue;
        }
        let Ok(length @ 1..) = output.read(&mut part) else {
            return;
        };
        let mut shown = shown.lock().expect("no reader panics");
        shown.terminal.process(&part[..length]);
        shown.bytes.extend(&part[..length]);
    }
}

impl Pty {
    /// Starts a program in a terminal of a size.
    pub(crate) fn start(command: &mut Command, size: Size) -> Pty {
        let (keys, program_side) = open(size);
        let end = || program_side.try_clone().expect("a descriptor");
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: system calls alone.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("the program starts");
        let shown = Arc::new(Mutex::new(Shown {
            terminal: vt100::Parser::new(size.height, size.width, 0),
            bytes: Vec::new(),
            has_hung_up: false,
        }));
        let output = keys.try_clone().expect("a descriptor");
        let reader = Arc::clone(&shown);
        let reader = thread::spawn(move || read_all(output, &reader));
        Pty {
            child,
            keys,
            program_side,
            shown,
            reader: Some(reader),
        }
    }

    /// Closes the terminal, as a connection that breaks does.
    pub(crate) fn hang_up(&mut self) {
        self.shown.lock().expect("no reader panics").has_hung_up = true;
        let reader = self.reader.take().expect("it hangs up once");
        reader.join().expect("no reader panics");
        let nothing = || File::open("/dev/null").expect("there is /dev/null");
        self.keys = nothing();
        self.program_side = nothing().into();
    }

    /// Presses keys, as a terminal sends them.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys
            .write_all(keys.as_bytes())
            .expect("the terminal is there");
    }

    /// The screen.
    pub(crate) fn screen(&self) -> String {
        let shown = self.shown.lock().expect("no reader panics");
        shown.terminal.screen().contents()
    }

    /// Everything that was written to the terminal.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.shown.lock().expect("no reader panics").bytes.clone()
    }

    /// Returns true if the terminal shows its first screen, with a cursor.
    pub(crate) fn is_given_back(&self) -> bool {
        let shown = self.shown.lock().expect("no reader panics");
        let screen = shown.terminal.screen();
        !screen.alternate_screen() && !screen.hide_cursor()
    }

    /// The terminal's treatment of keys and output.
    pub(crate) fn settings(&self) -> (u32, u32, u32, u32) {
        // SAFETY: the descriptor is a terminal's; all of the structure is written.
        let settings = unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            let read = libc::tcgetattr(self.program_side.as_raw_fd(), &raw mut settings);
            assert_eq!(read, 0, "{}", std::io::Error::last_os_error());
            settings
        };
        (
            settings.c_iflag,
            settings.c_oflag,
            settings.c_cflag,
            settings.c_lflag,
        )
    }

    /// Waits until the screen has a text.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_until(text, |pty| pty.screen().contains(text));
    }

    /// Waits until something holds.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&Pty) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(
                begun.elapsed() < PATIENCE,
                "{what}: not on\n{}",
                self.screen()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                return status;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "it does not end:\n{}",
                self.screen()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ends of a new terminal, which no other child gets.
fn open(size: Size) -> (File, OwnedFd) {
    let size = libc::winsize {
        ws_row: size.height,
        ws_col: size.width,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: a system call that writes two descriptors, which are nobody else's.
    unsafe {
        let opened = libc::openpty(
            &raw mut ours,
            &raw mut theirs,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        );
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        for descriptor in [ours, theirs] {
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}
