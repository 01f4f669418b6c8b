/* Four threads that insert into tables of their own and sum them up, by one connection to SQLite.
 *
 * cc -O2 -g -pthread -o sqlite sqlite.c -lsqlite3; ./sqlite ROWS
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4

static sqlite3 *database;
static int rows;

static void run(const char *text)
{
	char *problem = NULL;
	if (sqlite3_exec(database, text, NULL, NULL, &problem) != SQLITE_OK) {
		fprintf(stderr, "sqlite: %s: %s\n", text, problem);
		exit(1);
	}
}

static void *insert_and_sum(void *argument)
{
	int number = (int)(long)argument;
	char text[100];

	for (int row = 0; row < rows; row++) {
		snprintf(text, sizeof(text), "insert into table%d values (%d)", number, row);
		run(text);
		snprintf(text, sizeof(text), "select sum(value) from table%d", number);
		run(text);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t threads[THREADS];
	char text[100];

	rows = count > 1 ? atoi(arguments[1]) : 50;
	if (sqlite3_open_v2(":memory:", &database,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL) != SQLITE_OK) {
		fprintf(stderr, "sqlite: cannot open a database in memory\n");
		return 1;
	}
	for (int number = 0; number < THREADS; number++) {
		snprintf(text, sizeof(text), "create table table%d (value integer)", number);
		run(text);
	}
	for (long number = 0; number < THREADS; number++)
		pthread_create(&threads[number], NULL, insert_and_sum, (void *)number);
	for (int number = 0; number < THREADS; number++)
		pthread_join(threads[number], NULL);
	sqlite3_close(database);
	return 0;
}
