//! Limits that a user or the host sets (setrlimit(2), ulimit), named in errors.

use std::io;

/// Names the limit of this process in an error that it caused. Returns any other error unchanged.
pub fn explain(error: io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EFBIG) => limit(libc::RLIMIT_FSIZE)
            .map(|bytes| format!("the file size limit (ulimit -f) of {bytes} bytes is reached")),
        Some(libc::EMFILE) => limit(libc::RLIMIT_NOFILE)
            .map(|count| format!("the limit of {count} open files (ulimit -n) is reached")),
        Some(libc::ENFILE) => Some("all open files of this host (fs.file-max) are in use".into()),
        Some(libc::ENOMEM) => limit(libc::RLIMIT_AS)
            .map(|bytes| format!("the memory limit (ulimit -v) of {bytes} bytes is reached")),
        _ => None,
    };
    match text {
        Some(text) => io::Error::new(error.kind(), text),
        None => error,
    }
}

/// Like [`explain`], for an error of starting a process, where EAGAIN may be a limit too.
pub fn explain_start(error: io::Error) -> io::Error {
    match (error.raw_os_error(), limit(libc::RLIMIT_NPROC)) {
        (Some(libc::EAGAIN), Some(count)) => {
            let text = format!("the limit of {count} processes (ulimit -u) is reached");
            io::Error::new(error.kind(), text)
        }
        _ => explain(error),
    }
}

/// Sentence for the end of a program that may have had too little memory.
pub fn memory_hint() -> String {
    limit(libc::RLIMIT_AS).map_or(String::new(), |bytes| {
        format!(", under a memory limit (ulimit -v) of {bytes} bytes")
    })
}

/// Turns reaching the file size limit into an error (EFBIG), where SIGXFSZ would end this process.
///
/// The signal gets a handler that does nothing, because exec resets handlers to the default for a
/// program that we start. An inherited SIG_IGN stays, for this process and for those that it
/// starts.
pub fn survive_file_size_limit() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: plain system calls, with a structure that the first one fills; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut action);
        if action.sa_sigaction == libc::SIG_DFL {
            action.sa_sigaction = nothing as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGXFSZ, &action, std::ptr::null_mut());
        }
    }
}

/// Soft limit of a resource; `None` when there is none.
fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    // SAFETY: a plain system call that fills the structure.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(resource, &mut limit);
        limit.rlim_cur
    };
    (limit != libc::RLIM_INFINITY).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_are_explained() {
        let files = limit(libc::RLIMIT_NOFILE).expect("a process has a limit of open files");
        let explained = explain(io::Error::from_raw_os_error(libc::EMFILE)).to_string();
        assert_eq!(
            explained,
            format!("the limit of {files} open files (ulimit -n) is reached")
        );
        let other = explain(io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(other.raw_os_error(), Some(libc::ENOENT));
        let full = explain(io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}
