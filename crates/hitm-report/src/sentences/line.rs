//! Advice on a contended line, in words.

use super::sentences;

sentences! {
    /// A line that nobody fights over.
    nothing() = "Nothing to do.";
    /// A remedy by layout, where its worth is not known.
    layout(how) = "{how}.";
    /// A remedy by layout, and what it saves.
    layout_worth(how, cost) = "{how}: the false sharing that this ends {cost}.";
    /// A remedy for a pair of lines, and what it saves.
    layout_of_pair(how, cost) = "{how}. This {cost}.";
    /// Cost of a fight, as a part of a sentence.
    costs(cycles) = "costs {cycles} cycles";

    /// Bytes of different threads without a name.
    align_parts() = "Different threads write different bytes of this line: align what each of them uses to 64 bytes \
                     and pad it to a multiple of 64";
    /// An object whose line another one's fetches take along.
    align_to_pair(object) = "Align {object} to 128 bytes and pad it to a multiple of 128: the machine fetches the other \
                             line of the pair with it";
    /// The same, of bytes without a name.
    align_parts_to_pair() = "Align what each thread uses to 128 bytes and pad it to a multiple of 128: the machine \
                             fetches both lines of a pair";
    /// An array whose elements straddle lines.
    align_elements(array) = "Align {array} to 64 bytes and pad its elements to a multiple of 64, so that no element \
                             shares a line with its neighbour, and assert the size at compile time";
    /// An array with an element for each thread.
    pad_elements(array) = "Pad the elements of {array} to 64 bytes and align it to 64, so that each thread's element \
                           has a line of its own, and assert the size at compile time";
    /// An array whose elements threads take in turn.
    in_turns(array) = "Threads take turns at the elements of {array}: give each thread elements that lie together, in \
                       whole lines (multiples of 64 bytes, the array aligned to 64), as `schedule(static)` of OpenMP \
                       does; padding each element would only make the array larger.";
    /// An object that starts inside a line.
    align_object(object, then) = "Align {object} to 64 bytes: it starts inside a line and spreads over more lines \
                                  than it needs. {then}";
    /// An object of which no members are known.
    split_object(object) = "Give what each thread writes in the {object} a cache line of its own (align to 64 bytes)";
    /// Objects of one name in a line.
    align_each(name, count) = "Align each {name} to 64 bytes: {count} of them lie in one line by accident";
    /// Objects of several names in a line.
    separate_objects(names) = "Separate {names}, which lie in one line by accident: align each to 64 bytes";
    /// Members of an object on lines of their own.
    separate_members(apart) = "{apart} (align to 64 bytes), and assert the offsets at compile time";
    /// The same, with members that are only read.
    separate_from_read(apart, read) = "{apart}, away from {read}, which is only read (align to 64 bytes), and assert \
                                       the offsets at compile time";
    /// Groups of members by their writers.
    line_each_by_writers(groups) = "Give {groups} a cache line each, by the threads that write them";
    /// Parts without a name.
    line_for_parts() = "Give each thread's part of it a cache line of its own";
    /// The one written member.
    line_for_one(member) = "Give {member}, which is written, a cache line of its own";
    /// Written members.
    line_for_each(members) = "Give {members}, which different threads write, a cache line each";
    /// Something written beside what others only read.
    move_away(written, line) = "Move {written} to {line} (align to 64 bytes), away from what other threads only read";
    /// The same, with the names of what is read.
    move_away_from(written, line, read) = "Move {written} to {line} (align to 64 bytes) and keep {read} with other \
                                           read-mostly data, away from anything that is written often";
    /// A place for one thing.
    line_of_its_own() = "a cache line of its own";
    /// Places for several things.
    lines_of_their_own() = "cache lines of their own";
    /// Bytes that are written.
    written_bytes() = "the written bytes";

    /// A lock without a name.
    the_lock() = "the lock";
    /// Cost of a lock, beside other fights.
    which_costs(cost) = ", which {cost},";
    /// A lock that hardly anybody takes to write.
    count_of_readers(threads, lock, count, cost) = "{threads} hardly do more than read under {lock}, and fight over \
        the count of its readers, {count}{cost}: copy it for each thread or CPU, or publish a snapshot that is read \
        without it.";
    /// A condition variable.
    condition_variable(lock, cost) = "Wait for and signal the condition variable {lock}{cost} less often: pass more \
        work at a time, and signal only when what its waiters wait for has come true.";
    /// A channel.
    channel(lock, cost) = "Pass more at a time through the channel {lock}{cost} or use several channels: its sides \
                           take one lock for each value.";
    /// A lock on a line of its own.
    lock_less(lock, cost) = "Take {lock}{cost} less often or for less: split it into locks over smaller chunks of the \
                             data, or shorten what is done under it.";
    /// A lock beside its data.
    lock_less_with_data(lock, cost) = "Take {lock}{cost} less often or for less (locks over smaller chunks of the \
        data, shorter critical sections); waiters that spin on it also steal the line of the data beside it, so move \
        written data to the next line if the lock stays contended.";
    /// A lock or list of an allocator.
    of_allocator(name) = "The allocator's functions fight over {name}: allocate in larger pieces or keep blocks for \
        the next use, free where was allocated, or give the allocator more arenas (glibc: glibc.malloc.arena_max, \
        tcache_count; jemalloc: narenas, tcache).";

    /// Lines that pass from CPU to CPU.
    pass_nearer(name) = "The lines of {name} pass from the thread that fills them to one that uses them: let one thread \
        do both, keep the two on CPUs that share a cache, or pass less.";

    /// A word of a runtime that threads wait for.
    wait_of_runtime(name, functions) = "{name} is the C library's or a runtime's: call what takes it ({functions}) \
        less often, or use what keeps its state in each caller's memory; no layout helps.";
    /// A word of the program's that threads wait for.
    change_sooner(name) = "Let {name} change sooner: do less until then. If it is a lock, take it less often or split \
        what it guards; if a flag or a barrier, spread the work evenly. No layout helps.";

    /// Bytes that all threads need.
    these_bytes() = "these bytes";
    /// A count.
    count_less(count, pass_on) = "change {count} less often{pass_on}, or give each thread (or node) a count of its \
                                  own that is added up when it is read";
    /// A count of references.
    pass_on() = " (pass a reference on instead of taking one more)";
    /// Anything else.
    write_less(shared) = "write {shared} less often, or give each thread (or node) a copy on a line of its own and \
                          combine the copies when they are read";
    /// True sharing alone.
    share_less(less) = "The threads need the same bytes, so no layout helps: {less}.";
    /// True sharing beside other fights.
    share_less_too(cost, less) = "What no layout ends {cost}: {less}.";
}
