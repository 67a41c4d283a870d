/* The Verilated custom logic with a shell and an HBM around it, as a C library: libcl_dpu.so.
 *
 * Built by dpu.rtl.f2 for an arch (parameters are compiled in). One object is one card with its image loaded. Nothing runs
 * by itself: time passes in `cl_step` and in the bus functions, in cycles of clk_main_a0 (4 ns). Not thread safe.
 *
 * Results: 0 is good, CL_TIMEOUT is a bus access that the shell gave up after CL_TIMEOUT_CYCLES (reads are then all ones),
 * -1 is a broken rule of AXI or a failed assertion: `cl_problem` has the text, the object cannot go on.
 */

#ifndef CL_DPU_H
#define CL_DPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CL_TIMEOUT 1
#define CL_TIMEOUT_CYCLES 2000 /* 8 us */

/* Host memory behind PCIM. Takes one beat of 64 bytes at a physical address, bytes by strobe. 0: OKAY; else SLVERR. */
typedef int (*cl_host_write)(void *user, uint64_t physical, const uint8_t *data, uint64_t strobe);

/* `stall` of 256: how often each channel of the shell and of HBM pauses, at random by `seed`. HBM starts with noise, by `seed`. */
void *cl_new(uint64_t seed, int64_t stall);
void cl_free(void *card);
const char *cl_problem(void *card); /* "" while all is well */

/* rst_main_n low for a while, then HBM's own start-up: what a loaded image comes out of. HBM keeps its bytes. cl_new does it, too. */
int cl_reset(void *card);

/* `cycles` cycles; with `irq` fewer: until an interrupt has been delivered that `cl_irq` did not take yet. The cycles, or -1. */
int64_t cl_step(void *card, int64_t cycles, int irq);
int64_t cl_cycle(void *card);

/* AppPF BAR0: address of a 32-bit register. */
int cl_ocl_read(void *card, uint32_t address, uint32_t *value);
int cl_ocl_write(void *card, uint32_t address, uint32_t value);

/* AppPF BAR4: any address, any length; beats of 64 bytes in bursts that end at 4 KiB. A read beyond a timeout gives all ones. */
int cl_pcis_read(void *card, uint64_t address, uint8_t *data, int64_t bytes);
int cl_pcis_write(void *card, uint64_t address, const uint8_t *data, int64_t bytes);

void cl_host(void *card, cl_host_write write, void *user); /* none: every PCIM write is answered SLVERR */
int64_t cl_irq(void *card); /* interrupts delivered since the last call */
void cl_power(void *card, int state); /* sh_cl_pwr_state: 0 normal .. 3 critical */

enum cl_fault {
  CL_HANG_HBM = 0,   /* value: bit i: HBM ports of client i (tiles, then PCIS, then copy engine) take and give nothing */
  CL_HANG_PCIM = 1,  /* value 1: the shell takes nothing from PCIM; 0: again */
  CL_DROP_B = 2,     /* value: so many PCIM write responses are lost */
  CL_DROP_IRQ = 3,   /* value: so many interrupts are acknowledged, but never delivered */
  CL_ERROR_PCIM = 4, /* value: so many PCIM bursts are answered SLVERR, their data dropped */
  CL_ERROR_HBM = 5,  /* value: so many HBM reads (beats of 32 bytes, of tiles and the copy engine) are answered SLVERR */
  CL_SLOW_PCIM = 6,  /* value: cycles between two beats that the shell takes */
  CL_COLD_HBM = 7,   /* value 1: HBM has not finished its start-up; 0: it has */
  CL_SILENT_IRQ = 8, /* value 1: interrupts are neither delivered nor acknowledged; 0: again */
  CL_POSTED = 9,     /* value 1: cl_pcis_write returns at once, as a host's store does; a read waits for all before it */
};
void cl_inject(void *card, int fault, int64_t value);

enum cl_counter {
  CL_PCIM_BURSTS = 0,
  CL_PCIM_BEATS = 1,
  CL_TIMEOUTS = 2, /* of OCL and PCIS accesses */
  CL_HBM_READ_BEATS = 3, /* of 32 bytes, all ports */
  CL_HBM_WRITE_BEATS = 4,
  CL_IRQS = 5, /* requests, delivered or not */
};
int64_t cl_count(void *card, int counter);

/* HBM's bytes by device address behind all hardware, for tests and for fast loading that is said to be such. Takes no time. */
void cl_hbm_read(void *card, uint64_t address, uint8_t *data, int64_t bytes);
void cl_hbm_write(void *card, uint64_t address, const uint8_t *data, int64_t bytes);

/* A VCD file, in builds with waves. 0, or -1. */
int cl_waves(void *card, const char *path);

#ifdef __cplusplus
}
#endif
#endif
