//! The memory of the recording as a file, for a program that takes this process over.
//!
//! This process has it mapped and no descriptor: the program would find that. `hitm record` is asked for
//! one where its own cannot be opened by path: in other namespaces, without /proc, as another user.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use libc::c_int;

/// A file as the kernel knows it: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Identity {
    fn is_of(self, file: &File) -> bool {
        let data = file.metadata();
        data.is_ok_and(|data| (data.dev(), data.ino()) == (self.device, self.inode))
    }
}

/// Opens the memory at `path`, if that is it: pids, and so the path, are others in another namespace.
pub(crate) fn open(path: &str, identity: Identity) -> Option<File> {
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    identity.is_of(&file).then_some(file)
}

/// Receives the memory on one end of a pair of sockets: `ask` has it sent to the other end.
pub(crate) fn receive(identity: Identity, ask: impl FnOnce(c_int) -> bool) -> Option<File> {
    let [ours, theirs] = pair()?;
    if !ask(theirs.as_raw_fd()) {
        return None;
    }
    let file = File::from(take(&ours)?);
    identity.is_of(&file).then_some(file)
}

fn pair() -> Option<[OwnedFd; 2]> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two descriptors.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    // SAFETY: the descriptors are new and nobody else's.
    (made == 0).then(|| ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }))
}

/// The descriptor in the message that waits at a socket.
fn take(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut byte = 0u8;
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut control = [0u64; 8];
    // SAFETY: all buffers outlive the call, and the kernel fills what it says it does.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        if libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) != 1 {
            return None;
        }
        let head = libc::CMSG_FIRSTHDR(&raw const message).as_ref()?;
        let is_file = (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        let fd = libc::CMSG_DATA(head).cast::<c_int>();
        is_file.then(|| OwnedFd::from_raw_fd(fd.read_unaligned()))
    }
}
