//! Descriptors of files for other processes, wherever they are: in namespaces, without /proc, as other users.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

/// Sends `file` by the socket that the process `pid` has as its descriptor `fd`.
pub(super) fn send(file: &File, pid: u32, fd: RawFd) -> io::Result<()> {
    let socket = take(pid, fd)?;
    let mut byte = 0u8;
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let mut control = [0u64; 8];
    // SAFETY: all buffers outlive the call; the only control message has room for one descriptor.
    let sent = unsafe {
        let bytes = size_of::<RawFd>() as libc::c_uint;
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(bytes) as _;
        let room = libc::CMSG_DATA(head).cast::<RawFd>();
        room.write_unaligned(file.as_raw_fd());
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        libc::sendmsg(socket.as_raw_fd(), &raw const message, flags)
    };
    match sent {
        1 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The file that another process has as its descriptor `fd` (pidfd_getfd(2)). Linux asks for the rights of a debugger.
fn take(pid: u32, fd: RawFd) -> io::Result<OwnedFd> {
    let process = owned(call(libc::SYS_pidfd_open, [pid as libc::c_long, 0, 0]))?;
    let fd = [process.as_raw_fd().into(), fd.into(), 0];
    owned(call(libc::SYS_pidfd_getfd, fd))
}

fn call(number: libc::c_long, args: [libc::c_long; 3]) -> libc::c_long {
    // SAFETY: both calls take numbers alone.
    unsafe { libc::syscall(number, args[0], args[1], args[2]) }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: the descriptor is new and nobody else's.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_descriptor_comes_by_a_socket_of_the_other_process() {
        let file = tempfile::tempfile().expect("a temporary file");
        let (ours, theirs) = UnixDatagram::pair().expect("sockets");
        // This process stands for both.
        send(&file, std::process::id(), theirs.as_raw_fd()).expect("it is sent");
        let mut byte = [1u8; 1];
        // Read without its control message: Linux drops the descriptor then.
        assert_eq!(ours.recv(&mut byte).expect("a message"), 1);
        assert_eq!(byte, [0]);
        let not_a_socket = send(&file, std::process::id(), file.as_raw_fd());
        let error = not_a_socket.expect_err("a file is no socket");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
        assert!(send(&file, u32::MAX >> 1, 0).is_err());
    }
}
