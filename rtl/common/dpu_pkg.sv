// Types and constants that the modules of the tile share. Parameters of an arch are module parameters, not here.

package dpu_pkg;

  // Waiver: a module uses some of these only.
  /* verilator lint_off UNUSEDPARAM */
  parameter int unsigned BeatBytes = 64;
  parameter int unsigned BeatBits = 512;
  parameter int unsigned AxiAddrW = 64;
  parameter int unsigned MaxBurstBeats = 64;  // 4 KiB
  parameter int unsigned Engines = 4;  // with queues and semaphores: LOAD, MXU, VPU, STORE
  parameter int unsigned WordsInFlight = 4;  // LOAD, STORE words between start and done (ir/cost.py: LOADS_OUTSTANDING)
  /* verilator lint_on UNUSEDPARAM */

  typedef logic [511:0] word_t;
  typedef logic [AxiAddrW-1:0] axi_addr_t;
  typedef logic [BeatBits-1:0] beat_t;

  // What an engine reports when it gives up: the code, the word's index in the stream, the address at fault.
  typedef struct packed {
    logic                valid;
    dpu_isa_pkg::error_e code;
    logic [31:0]         index;
    logic [63:0]         address;
  } fault_t;

  // A fault and where it happened.
  typedef struct packed {
    logic [7:0]           tile;
    dpu_isa_pkg::engine_e engine;
    fault_t               fault;
  } report_t;

  // A region of DRAM that a base register names.
  typedef struct packed {
    logic [63:0] base;
    logic [63:0] limit;
  } region_t;

  // What a queue shows of its engine, for counters and for the simulation's per-word record.
  typedef struct packed {
    logic        start;
    logic        done;
    logic [31:0] start_index;
    logic [31:0] done_index;
  } event_t;

endpackage
