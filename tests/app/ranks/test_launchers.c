// What launchers put into the environment, as their documentation has it, and what comes of sets that are not whole.
#include "app/ranks/launchers.h"
#include "tests/support/kernels/random.h"
#include "tests/support/program.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static Launched found;
static Error error;

static int forget(void **state) {
    static const char *const PREFIXES[] = {"OMPI_", "PMI_", "PMIX_", "SLURM_", "MPI_"};
    extern char **environ;
    (void)state;
    for (char **at = environ; *at;) {
        char name[100];
        bool known = false;
        for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++)
            known = known || !strncmp(*at, PREFIXES[i], strlen(PREFIXES[i]));
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        if (known)
            unsetenv(name);
        else
            at++;
    }
    return 0;
}

// "A=1 B=2", and nothing else of a launcher.
static void set(const char *words) {
    char text[1000], *rest = text;
    (void)forget(NULL);
    snprintf(text, sizeof text, "%s", words);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        if (!*word) continue;
        char *equals = strchr(word, '=');
        assert_non_null(equals);
        *equals = 0;
        setenv(word, equals + 1, 1);
    }
}

static void is_found(const char *words, int size, int rank, const char *host) {
    set(words);
    if (launchers_find(&found, &error)) fail_msg("%s: %s", words, error.message);
    if (found.size != size || found.rank != rank) fail_msg("%s: %d of %d", words, found.rank, found.size);
    char *colon = strrchr(found.join, ':');
    if (colon) *colon = 0;
    if (strcmp(found.join, host) != 0) fail_msg("%s: %s", words, found.join);
    if (colon) assert_in_range(atoi(colon + 1), 20000, 29999);
}

static void is_refused(const char *words, const char *part) {
    set(words);
    if (launchers_find(&found, &error) != STATUS_USAGE) fail_msg("%s: taken", words);
    if (!strstr(error.message, part)) fail_msg("%s: %s", words, error.message);
}

#define OPEN_MPI_4                                                                                           \
    "OMPI_UNIVERSE_SIZE=4 OMPI_COMM_WORLD_NODE_RANK=0 PMIX_RANK=1 PMIX_NAMESPACE=2711027713 "                \
    "OMPI_MCA_orte_ess_num_procs=2 OMPI_COMM_WORLD_LOCAL_RANK=0 "
#define OPEN_MPI_5                                                                                           \
    "PMIX_NAMESPACE=prterun-a-4242@1 PMIX_RANK=1 PMIX_HOSTNAME=a PMIX_VERSION=5.0.1 OMPI_NUM_APP_CTX=1 "
#define HYDRA "MPI_LOCALRANKID=1 PMI_FD=9 GFORTRAN_UNBUFFERED_PRECONNECTED=y "
#define STEP                                                                                                 \
    "SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_JOB_NODELIST=a[01-04] "            \
    "SLURM_NODELIST=a[01-04] "

static void whoever_has_started_it(void **state) {
    (void)state;
    is_found("", 1, 0, "");
    is_found(OPEN_MPI_4 "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2", 2, 1,
             "127.0.0.1");
    is_found(OPEN_MPI_5 "OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=3", 3, 0,
             "127.0.0.1");
    is_found(OPEN_MPI_5 "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1", 2, 0,
             "");
    is_found(HYDRA "PMI_SIZE=2 PMI_RANK=1 MPI_LOCALNRANKS=2", 2, 1, "127.0.0.1");
    is_found(HYDRA "PMI_SIZE=2 PMI_RANK=1 MPI_LOCALNRANKS=1", 2, 1, "");
    is_found(STEP "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_STEP_NODELIST=a[02-03] SLURM_STEP_NUM_NODES=2",
             2, 1, "a02");
    is_found(STEP "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 SLURM_STEP_NODELIST=a[02-03] SLURM_STEP_NUM_NODES=2",
             2, 0, "0.0.0.0");
    is_found(STEP "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_STEP_NODELIST=a02 SLURM_STEP_NUM_NODES=1", 2,
             1, "127.0.0.1");
}

static void hosts_of_a_list(void **state) {
    (void)state;
    static const char *const LISTS[][2] = {{"node1", "node1"},
                                           {"node1,node2", "node1"},
                                           {"n[3,5-7],m", "n3"},
                                           {"rack[1-2]n[04-09]", "rack1n04"},
                                           {"gpu[007-009]-ib", "gpu007-ib"},
                                           {"a.b.c,d", "a.b.c"},
                                           {"n[12", "n12"}};
    char words[300];
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        snprintf(words, sizeof words,
                 "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_JOB_ID=1 SLURM_STEP_NODELIST=%s", LISTS[i][0]);
        is_found(words, 2, 1, LISTS[i][1]);
    }
}

// Of two that speak the innermost one counts.
static void one_inside_the_other(void **state) {
    (void)state;
    // mpirun in a job of two hosts, whose daemons srun has started; and in one of a terminal.
    is_found(OPEN_MPI_4 STEP "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
                             "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_STEP_NODELIST=a[02-03]",
             4, 3, "a01");
    is_found(HYDRA STEP "PMI_SIZE=4 PMI_RANK=3 MPI_LOCALNRANKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 "
                        "SLURM_STEP_NODELIST=a[02-03]",
             4, 3, "a01");
    is_found(OPEN_MPI_4 STEP "OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 "
                             "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 SLURM_STEP_NODELIST=a[02-03]",
             1, 0, "");
    // srun --mpi=pmi2, and --mpi=pmix
    is_found(STEP "PMI_SIZE=2 PMI_RANK=1 PMI_JOBID=77.0 PMI_FD=8 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 "
                  "SLURM_STEP_NODELIST=a[02-03] SLURM_STEP_NUM_NODES=2",
             2, 1, "a02");
    is_found(STEP "PMIX_RANK=1 PMIX_NAMESPACE=slurm.pmix.77.0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 "
                  "SLURM_STEP_NODELIST=a[02-03] SLURM_STEP_NUM_NODES=2",
             2, 1, "a02");
    // A batch script, and a shell in a job.
    is_found(STEP "SLURM_PROCID=0 SLURM_NNODES=2", 1, 0, "");
    is_found(STEP "SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_STEP_NODELIST=a02 PMIX_RANK=0", 1, 0, "");
}

static void what_is_not_whole_is_refused(void **state) {
    (void)state;
    is_refused("OMPI_COMM_WORLD_SIZE=2",
               "OMPI_COMM_WORLD_RANK=(unset): one of the two is missing; --world 1");
    is_refused("OMPI_COMM_WORLD_RANK=1", "mpirun (Open MPI): OMPI_COMM_WORLD_SIZE=(unset)");
    is_refused("PMI_RANK=1", "one of the two is missing");
    is_refused("SLURM_STEP_NUM_TASKS=2", "srun: SLURM_STEP_NUM_TASKS=2 and SLURM_PROCID=(unset)");
    is_refused("PMI_SIZE=2 PMI_RANK=2", "ranks count from 0 on");
    is_refused("PMI_SIZE=0 PMI_RANK=0", "ranks count from 0 on");
    is_refused("PMI_SIZE=2 PMI_RANK=-1", "not both are numbers");
    is_refused("PMI_SIZE=two PMI_RANK=1", "not both are numbers");
    is_refused("PMI_SIZE= PMI_RANK=1", "not both are numbers");
    is_refused("PMI_SIZE=99999999999 PMI_RANK=1", "not both are numbers");
    is_refused("PMIX_RANK=1", "PMIX_RANK=1, but nothing says of how many");
    is_refused("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 PMI_SIZE=4 PMI_RANK=3",
               "mpirun (Open MPI) says rank 1 of 2, and mpiexec (MPICH) rank 3 of 4: which of them is meant");
}

// All processes of one start meet at one port, those of another one elsewhere.
static void starts_do_not_meet(void **state) {
    (void)state;
    char ports[3][280];
    static const char *const STARTS[] = {"1", "1", "2"};
    for (int i = 0; i < 3; i++) {
        char words[200];
        snprintf(words, sizeof words,
                 "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=%d SLURM_JOB_ID=7 SLURM_STEP_ID=%s "
                 "SLURM_STEP_NUM_NODES=1",
                 i % 2, STARTS[i]);
        set(words);
        assert_ok(launchers_find(&found, &error), &error);
        memcpy(ports[i], found.join, sizeof ports[i]);
    }
    assert_string_equal(ports[0], ports[1]);
    assert_string_not_equal(ports[0], ports[2]);
}

// Where one of two processes goes that mpiexec has started in a session whose leader has ended since.
static void find_without_leader(int file, int rank) {
    char words[200];
    snprintf(words, sizeof words, HYDRA "PMI_SIZE=2 PMI_RANK=%d MPI_LOCALNRANKS=2", rank);
    set(words);
    for (int tries = 0; tries < 1000 && !kill(getsid(0), 0); tries++) usleep(10000);
    if (launchers_find(&found, &error)) *found.join = 0;
    _exit(write(file, found.join, sizeof found.join) != (ssize_t)sizeof found.join);
}

static void a_session_outlives_its_leader(void **state) {
    (void)state;
    char joins[2][sizeof found.join];
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    const pid_t leader = fork();
    assert_true(leader >= 0);
    if (!leader) {
        setsid();
        // Each has a parent of its own, as where a script of the user's starts it.
        for (int rank = 0; rank < 2; rank++)
            if (!fork()) {
                const pid_t child = fork();
                if (!child) find_without_leader(ends[1], rank);
                _exit(waitpid(child, &status, 0) != child);
            }
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(waitpid(leader, &status, 0), leader);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(read(ends[0], joins[rank], sizeof joins[rank]), sizeof joins[rank]);
    close(ends[0]);
    assert_memory_equal(joins[0], "127.0.0.1:", 10);
    assert_string_equal(joins[0], joins[1]);
}

// What launchers set for rank %d; and what stdin is for the other one, which does not read it: nothing, or, of srun, what
// rank 0 gets as well. By a script of the user's, for a card of its own.
static void launchers_are_understood(void **state) {
    static const struct {
        const char *set, *input;
    } LAUNCHERS[] = {
        {"PMIX_RANK=%d OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=%d OMPI_COMM_WORLD_LOCAL_SIZE=2 "
         "OMPI_COMM_WORLD_LOCAL_RANK=%d PMIX_NAMESPACE=test$$",
         "true"},
        {"PMI_FD=9 PMI_SIZE=2 PMI_RANK=%d MPI_LOCALNRANKS=2 MPI_LOCALRANKID=%d PMI_ID=%d", "true"},
        {"SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=%d SLURM_LOCALID=%d SLURM_TASK_PID=%d SLURM_JOB_ID=$$ "
         "SLURM_STEP_ID=0 "
         "SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=localhost",
         "head -c 300000 /dev/zero"},
        {"SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=%d SLURM_LOCALID=%d PMI_RANK=%d PMI_SIZE=2 PMI_JOBID=$$.0 "
         "SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost,other SLURM_STEP_NUM_NODES=2",
         "head -c 300000 /dev/zero"},
    };
    for (size_t i = 0; i < sizeof LAUNCHERS / sizeof *LAUNCHERS; i++) {
        char set[2][400], command[2500];
        Run run;
        for (int rank = 0; rank < 2; rank++)
            snprintf(set[rank], sizeof set[rank], LAUNCHERS[i].set, rank, rank, rank);
        snprintf(command, sizeof command,
                 "at='%s/read%zu'; ask() { $PALAVER " BABBLER " --device=cpu --threads=1 \"$@\"; true; }\n"
                 "({ %s; touch $at; } | { export %s; exec $PALAVER " BABBLER
                 " --device=cpu --threads=1; }) &\n"
                 "while [ ! -e $at ]; do sleep .05; done\n"
                 "echo Hello | { export %s; (ask --seed=1 --max-tokens=4 --stats); }; wait $!",
                 (char *)*state, i, LAUNCHERS[i].input, set[1], set[0]);
        program_shell(&run, command);
        expect_status(&run, 0);
        expect_err(&run, "[turn 1");
        program_free(&run);
    }
}

static void half_of_a_launcher_is_refused(void **state) {
    (void)state;
    Run run;
    program_shell(&run, "PMI_SIZE=2 $PALAVER " BABBLER " --device=cpu </dev/null");
    expect_status(&run, 2);
    expect_err(&run, "mpiexec (MPICH): PMI_SIZE=2 and PMI_RANK=(unset)");
    program_free(&run);
    program_shell(&run, "PMI_SIZE=2 $PALAVER " BABBLER
                        " --world=1 --device=cpu --max-tokens=1 -p Hello </dev/null");
    expect_status(&run, 0);
    program_free(&run);
}

int main(int argc, char **argv) {
#define ALONE(test) cmocka_unit_test_teardown(test, forget)
#define STARTED(test) cmocka_unit_test_setup_teardown(test, program_set_up, program_tear_down)
    const struct CMUnitTest tests[] = {
        ALONE(whoever_has_started_it),     ALONE(hosts_of_a_list),
        ALONE(one_inside_the_other),       ALONE(what_is_not_whole_is_refused),
        ALONE(starts_do_not_meet),         ALONE(a_session_outlives_its_leader),
        STARTED(launchers_are_understood), STARTED(half_of_a_launcher_is_refused),
    };
    return test_main("launchers", argc, argv, tests);
}
