//! The summary of a run, in words.

use super::sentences;

sentences! {
    /// No contended line.
    no_line() = "no line is contended";
    /// The finding that costs most.
    causes(name, share) = "{name} causes {share} of it";
    /// Samples without addresses.
    no_address() = "Cannot tell: no sample has a data address.";
    /// Samples, and the lines that they contend on.
    samples(count, lines) = "{count} samples, which do not say what part of the run is lost: {lines}.";
    /// CPU time at lines of a running program.
    stands_at(most, least, cpu, who, lines) = "at most {most} of the {who}' CPU time ({cpu}), at least {least}: {lines}.";
    /// Part of a run that is lost.
    lost(share, who, lost, whole, lines) = "{share} of the {who}' time, {lost} of {whole} cycles: {lines}.";
    /// Threads that wait, in their ways.
    waiting(share, ways) = "{share} of the threads' time is waiting: {ways}.";
    /// A way to wait.
    waits(share, way, name) = "{share} {way} for {name}";
    /// A way to wait, for several things.
    waits_most(share, way, name) = "{share} {way} most of all for {name}";
    /// Waits for lines.
    waits_lines(share) = "{share} for lines";

    /// Loss that is meant.
    lost_time() = "it";
    /// The same of samples.
    sampled_latency() = "the sampled latency";
    /// Lines of one kind of object.
    on_lines(share, loss, count, kind, address) = "{share} of {loss} on {count} lines of {kind}, the costliest at {address}.";
    /// One line.
    on_line(share, loss, name, at) = "{share} of {loss} on {name}{at}.";
    /// An address behind a name.
    at(address) = " at {address}";
    /// Reason for a finding about lines that are handed over.
    handed_on(count) = "{count} lines are handed from thread to thread, each too rarely for a fight.";
    /// Lines that are handed over.
    passing(count, name) = "{count} lines that pass from CPU to CPU, most of all {name}.";
    /// Lines of others alone.
    no_own_line() = "On no line of the program's own.";
    /// Nothing that stands out.
    nowhere() = "On no line in particular.";
    /// A thing that threads wait for.
    waits_at(share, way, name, at, functions) = "{share} {way} for {name}{at}{functions}.";
    /// Functions that wait.
    within(functions) = ", in {functions}";
    /// Functions that end a wait.
    changed_in(functions) = "; changed in {functions}";

    /// Gain of a layout.
    gains_by_layout(share, name, plan, before, after) = "{share} of the run by replay: {name} {plan}, {after} bytes \
                                                         instead of {before}.";
    /// Gain of padded elements.
    gains_by_padding(share, name) = "{share} of the run by replay: elements of {name} padded to 64 bytes.";
    /// No layout gains anything.
    gains_nothing(name, count, most) = "None of {count} layouts of {name} is better by replay; at most {most} of the run.";
    /// Gain of another placement.
    gains_near(share, most) = "{share} of the run by replay with threads on CPUs near to each other; at most {most}.";
    /// A lock and its holders.
    held(count, mean, share) = "{mean} cycles each time, seen {count}: at least {share} of the time from its first holder to \
                              its last.";
    /// The same run elsewhere.
    here(share, lost, cpus) = "{share} of the time is {lost} on this host ({cpus}) by replay, threads placed spread.";
    /// A gain that nobody tried.
    gains_at_most(most) = "At most {most} of the run; nothing was replayed.";

    /// A verdict with its evidence.
    because(verdict, who, evidence) = "{verdict}: {who}, {evidence}.";
    /// Evidence of samples.
    hitms(remote, local) = "{remote} remote and {local} local HITMs";
    /// Evidence of watches.
    changes(rate) = "at least {rate} hand-overs a second";
    /// Evidence of too few watches.
    changes_unknown() = "watched too seldom to tell how many hand-overs a second";
    /// Evidence of samples that nothing was watched beside.
    candidate() = "a candidate by samples alone";
    /// Evidence of recordings.
    handed_over(all, ways) = "{all} ({ways})";
    /// Waits, their length, and what they leave.
    waiters(threads, wait, waits, mean, get_on) = "{threads} {wait} for it, {waits} of {mean} cycles{get_on}.";
    /// The thread that ends waits.
    until(thread, within) = ", until {thread} changes it{within}";
    /// The one of several that does so most often.
    until_mostly(thread, threads, within) = ", until one of {threads} changes it{within}, mostly {thread}";
    /// Several that do so alike.
    until_one(threads, within) = ", until one of {threads} changes it{within}";
    /// The function in which it does.
    changes_in(function) = " in {function}";
    /// Threads that neither wait nor are idle.
    get_on(busy, all) = "; {busy} of {all} get on at a time";
    /// Lines that one thread touches alone.
    nobody_else(count) = "{count} lines were watched, and none of them is one that several threads touch and one writes.";
    /// Lines where nothing was watched.
    no_candidate() = "No line has samples of several threads, one of which writes.";
    /// Samples that do not say of what.
    not_known() = "No sample has a data address: what was used where is not known.";
    /// Nothing that is worth a verdict.
    no_fights() = "No line has fights worth a verdict.";
    /// One thread.
    single_threaded() = "Single-threaded: there is nobody to share a line with.";
    /// Lines of runtimes alone.
    only_runtimes() = "Only the C library or a language's runtime contends, for something of its own.";
    /// Threads that share nothing.
    nothing_shared(who) = "Nothing is shared: none of {who} took a line from another one.";
    /// A run that says nothing.
    too_short(cycles, hand_overs) = "Too short to tell: all threads together ran for {cycles} cycles, most of them to \
                                     start and to end; {hand_overs} of lines.";
    /// Hand-overs that are worth nothing.
    few_fights(hand_overs, who) = "No line has fights worth a verdict: {hand_overs} between {who}.";

    /// Recordings that would tell more.
    record_addresses() = "Record with addresses: `perf c2c record`, `perf mem record`, or `hitm record`.";
    /// Nothing to do.
    no_advice() = "Nothing about cache lines.";
}
