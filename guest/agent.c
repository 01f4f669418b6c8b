// The guest agent: the first program of a machine that hitm boots.
//
// It prepares what programs expect (/dev, /proc, /sys), tells the host over the second serial port
// when it is ready, hands over files of the kernel, runs the workload between two marker
// instructions, and tells its exit status. Standard output of the workload is the first serial port.
//
// The protocol, one line each way at a time:
//   guest: "hitm-agent 2 CPUS"      it is up, with so many CPUs
//   host:  "file PATH"              the guest puts the file into memory and answers
//   guest: "file SIZE PHYS..."      its size in bytes and the physical address of each 2 MiB of it
//   host:  "run"                    runs the workload, recorded
//   guest: "exit STATUS"            its exit status, 128 + signal when it was killed; the workload is
//                                   held at its end, and /hitm/memory says where it has its memory
//   host:  "off"                    powers the machine off
//   guest: "error TEXT"             what it could not do

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define HUGE_PAGE (2UL << 20)
#define FILE_MAX (256UL << 20)

// The host's line, once to speak on and once to listen on.
static FILE *host, *host_in;

// `xchg %rbx,%rbx` and `xchg %rcx,%rcx`: what the recorder looks for. They change nothing.
static void mark_start(void) { __asm__ volatile(".byte 0x48, 0x87, 0xdb" ::: "memory"); }
static void mark_stop(void) { __asm__ volatile(".byte 0x48, 0x87, 0xc9" ::: "memory"); }

static void say_error(const char *what)
{
	fprintf(host, "error %s: %s\n", what, strerror(errno));
}

// Whether something lies in a directory, such as a program of the host that is at home there.
static int is_used(const char *path)
{
	return rmdir(path) && errno == ENOTEMPTY;
}

static void mount_all(void)
{
	static const struct { const char *type, *path; } mounts[] = {
		{ "devtmpfs", "/dev" }, { "proc", "/proc" },          { "sysfs", "/sys" },
		{ "tmpfs", "/tmp" },    { "cgroup2", "/sys/fs/cgroup" }, { "tmpfs", "/dev/shm" },
	};

	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		if (!strcmp(mounts[i].type, "tmpfs") && is_used(mounts[i].path))
			continue;
		mkdir(mounts[i].path, 0755);
		if (mount(mounts[i].type, mounts[i].path, mounts[i].type, 0, NULL) && errno != EBUSY)
			fprintf(stderr, "agent: cannot mount %s: %s\n", mounts[i].path, strerror(errno));
	}
}

// The line of the host as it is: no echo, no translation of bytes.
static FILE *open_host(const char *path, const char *mode)
{
	struct termios raw;
	int fd = open(path, O_RDWR | O_NOCTTY);

	if (fd < 0)
		return NULL;
	if (!tcgetattr(fd, &raw)) {
		cfmakeraw(&raw);
		tcsetattr(fd, TCSANOW, &raw);
	}
	FILE *file = fdopen(fd, mode);
	if (file)
		setvbuf(file, NULL, _IOLBF, 0);
	return file;
}

static int write_number(const char *path, unsigned long number)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return -1;
	fprintf(file, "%lu\n", number);
	return fclose(file);
}

// The physical address behind `page`, which is locked in memory; 0 if the kernel does not say.
static uint64_t physical_address(int pagemap, const char *page)
{
	uint64_t entry;
	off_t at = (uintptr_t)page / 4096 * sizeof(entry);

	if (pread(pagemap, &entry, sizeof(entry), at) != sizeof(entry))
		return 0;
	return (entry & ((1UL << 55) - 1)) * 4096;
}

// Reads a file of unknown size into huge pages and tells the host where they are.
static void hand_over(const char *path)
{
	int fd = open(path, O_RDONLY), pagemap = open("/proc/self/pagemap", O_RDONLY);
	size_t size = 0, room = 0;
	ssize_t got = 1;
	char *memory;

	if (fd < 0 || pagemap < 0)
		return say_error(path);
	// How large it is tells only reading it: files of /proc say 0.
	static char scratch[1 << 16];
	while ((got = read(fd, scratch, sizeof(scratch))) > 0)
		room += got;
	if (got < 0 || room > FILE_MAX)
		return say_error(path);
	room = (room + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
	write_number("/proc/sys/vm/nr_hugepages", room / HUGE_PAGE);
	memory = mmap(NULL, room, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		return say_error("huge pages");
	lseek(fd, 0, SEEK_SET);
	while (size < room && (got = read(fd, memory + size, room - size)) > 0)
		size += got;
	fprintf(host, "file %zu", size);
	for (size_t at = 0; at < size; at += HUGE_PAGE)
		fprintf(host, " %#lx", (unsigned long)physical_address(pagemap, memory + at));
	fprintf(host, "\n");
	// The host answers when it has taken them.
	char line[16];
	if (!fgets(line, sizeof(line), host_in))
		reboot(LINUX_REBOOT_CMD_POWER_OFF);
	munmap(memory, room);
	write_number("/proc/sys/vm/nr_hugepages", 0);
	close(fd);
	close(pagemap);
}

// The arguments of the workload: each on a line of its own in /hitm/command.
static char **read_command(void)
{
	static char *arguments[1024];
	char *line = NULL;
	size_t size = 0, count = 0;
	ssize_t length;
	FILE *file = fopen("/hitm/command", "r");

	if (!file)
		return NULL;
	// Each ends with a byte 0, so that it may hold anything else.
	while (count < 1023 && (length = getdelim(&line, &size, '\0', file)) > 0)
		arguments[count++] = strdup(line);
	fclose(file);
	return count ? arguments : NULL;
}

// Lines of a list that the host can use; a program with more pieces of memory has the first ones named.
#define RUNS_MAX 200000

// The pages of one mapping, as runs that are one piece in physical memory: `P ADDRESS PHYSICAL PAGES`.
static long write_runs(FILE *out, int pagemap, unsigned long start, unsigned long end, long room)
{
	unsigned long run = 0, first = 0, count = 0;

	for (unsigned long at = start; at <= end && room > 0; at += 4096) {
		uint64_t entry = 0;
		unsigned long frame = 0;

		if (at < end && pread(pagemap, &entry, sizeof(entry), at / 4096 * sizeof(entry)) == sizeof(entry) &&
		    entry >> 63)
			frame = entry & ((1UL << 55) - 1);
		if (count && frame == first + count) {
			count++;
			continue;
		}
		if (count) {
			fprintf(out, "P %lx %lx %lu\n", run, first * 4096, count);
			room--;
		}
		run = at;
		first = frame;
		count = frame != 0;
	}
	return room;
}

// Writes where the workload has its files and its memory, for the names of what was recorded.
static void write_memory(pid_t child)
{
	char path[64], line[4352];
	long room = RUNS_MAX;
	FILE *out = fopen("/hitm/memory", "w");

	snprintf(path, sizeof(path), "/proc/%d/maps", child);
	FILE *maps = fopen(path, "r");
	snprintf(path, sizeof(path), "/proc/%d/pagemap", child);
	int pagemap = open(path, O_RDONLY);

	while (out && maps && pagemap >= 0 && fgets(line, sizeof(line), maps)) {
		unsigned long start, end;

		fprintf(out, "M %s", line);
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start < 1UL << 47)
			room = write_runs(out, pagemap, start, end, room);
	}
	// The kernel's own mappings: stacks of threads, also of ended ones.
	write_number("/proc/sys/kernel/kptr_restrict", 1); // Else their addresses are made up.
	FILE *areas = fopen("/proc/vmallocinfo", "r");
	while (out && areas && fgets(line, sizeof(line), areas))
		fprintf(out, "V %s", line);
	if (areas)
		fclose(areas);
	if (out)
		fclose(out);
	if (maps)
		fclose(maps);
	if (pagemap >= 0)
		close(pagemap);
}

// Threads of a process.
static int thread_count(pid_t process)
{
	char path[64];
	int count = 0;
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	DIR *tasks = opendir(path);
	while (tasks && (entry = readdir(tasks)))
		count += entry->d_name[0] != '.';
	if (tasks)
		closedir(tasks);
	return count;
}

// The first thread stands at its end; the others may have some way to go.
static void wait_for_threads(pid_t child)
{
	while (thread_count(child) > 1)
		usleep(1000);
}

// Starts the workload when this process watches for its end.
static pid_t start_workload(char **command)
{
	int gate[2];
	char byte;
	pid_t child;

	if (pipe(gate))
		return -1;
	child = fork();
	if (child == 0) {
		close(gate[1]);
		if (read(gate[0], &byte, 1) < 0)
			_exit(127);
		close(gate[0]);
		setsid();
		execvp(command[0], command);
		fprintf(stderr, "agent: cannot run %s: %s\n", command[0], strerror(errno));
		_exit(127);
	}
	close(gate[0]);
	if (child > 0)
		ptrace(PTRACE_SEIZE, child, NULL, PTRACE_O_TRACEEXIT);
	close(gate[1]);
	return child;
}

// The workload is held at its end, so that its memory can be looked at; its status, as wait() has it.
static int run_workload(char **command)
{
	unsigned long message = 0;
	int status = 0;
	pid_t child;

	fflush(NULL);
	mark_start();
	child = start_workload(command);
	for (;;) {
		pid_t changed = waitpid(-1, &status, __WALL);

		// Orphans of the workload end up here as well.
		if (changed < 0 && errno == EINTR)
			continue;
		if (changed < 0 || (changed == child && !WIFSTOPPED(status)))
			break;
		if (changed != child)
			continue;
		if (status >> 16 == PTRACE_EVENT_EXIT) {
			wait_for_threads(child);
			mark_stop();
			ptrace(PTRACE_GETEVENTMSG, child, NULL, &message);
			write_memory(child);
			return message;
		}
		// A signal goes on to where it was sent; a stop of the whole group is none.
		ptrace(PTRACE_CONT, child, NULL, status >> 16 ? 0 : WSTOPSIG(status));
	}
	mark_stop();
	return status;
}

// The host ends the machine as soon as it knows the status, so nothing may be left to print.
static int run_and_drain(char **command)
{
	int status = run_workload(command);

	tcdrain(STDOUT_FILENO);
	return status;
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(void)
{
	char line[4096];
	char **command;

	mount_all();
	host = open_host("/dev/ttyS1", "w");
	host_in = open_host("/dev/ttyS1", "r");
	if (!host || !host_in) {
		fprintf(stderr, "agent: no second serial port: %s\n", strerror(errno));
		reboot(LINUX_REBOOT_CMD_POWER_OFF);
	}
	setenv("PATH", "/hitm/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", "/root", 1);
	setenv("TERM", "dumb", 1);
	// Threads of real-time priority may use all of the time.
	FILE *unlimited = fopen("/proc/sys/kernel/sched_rt_runtime_us", "w");
	if (unlimited) {
		fputs("-1\n", unlimited);
		fclose(unlimited);
	}
	command = read_command();
	fprintf(host, "hitm-agent 2 %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
	while (fgets(line, sizeof(line), host_in)) {
		line[strcspn(line, "\r\n")] = 0;
		if (!strncmp(line, "file ", 5))
			hand_over(line + 5);
		else if (!strcmp(line, "run") && command)
			fprintf(host, "exit %d\n", exit_status(run_and_drain(command)));
		else if (!strcmp(line, "off"))
			break;
		else
			fprintf(host, "error unknown request\n");
	}
	fflush(NULL);
	sync();
	reboot(LINUX_REBOOT_CMD_POWER_OFF);
	return 1;
}
