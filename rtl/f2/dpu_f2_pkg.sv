// Channels between the custom logic's modules and constants of its address map. Channels carry payload only: valid and
// ready stand beside them. `mem_*` is one client's memory port (512 bits, device addresses from 0), `hbm_*` one AXI3 port
// of the HBM IP (256 bits).

package dpu_f2_pkg;

  // Waiver: a module uses some of these only.
  /* verilator lint_off UNUSEDPARAM */
  parameter int unsigned ShellIdW = 16;
  parameter int unsigned HbmAddrW = 34;  // 16 GiB
  parameter int unsigned HbmPorts = 32;
  parameter logic [63:0] PcisBase = 64'h10_0000_0000;  // of HBM in AppPF BAR4

  // A shell access times out after 8 us: 2000 cycles of 4 ns. What the custom logic waits for before that.
  parameter int unsigned MemoryTimeout = 1500;
  parameter int unsigned HostTimeout = 2048;

  parameter logic [1:0] RespOkay = 2'b00;
  parameter logic [1:0] RespDecodeError = 2'b11;

  parameter logic [511:0] DeadBeat = {16{32'hDEAD_DEAD}};
  parameter logic [15:0] DeadWord = 16'hDEAD;  // upper half of what an unassigned register reads as

  // Error codes of the copy engine, COPY_STATUS bits 15:8.
  typedef enum logic [7:0] {
    CopyOk            = 8'd0,
    CopyArgument      = 8'd1,  // no bytes, or an address or length that is no multiple of 64
    CopyMemory        = 8'd2,  // HBM answered a read with an error, or the address is outside it
    CopyHost          = 8'd3,  // the shell answered a write with an error
    CopyHostTimeout   = 8'd4,  // a write was not taken or not answered in time
    CopyAborted       = 8'd5,
    CopyMemoryTimeout = 8'd6,  // HBM did not take or answer a read in time
    CopyNotReady      = 8'd7   // HBM has not started up
  } copy_error_e;
  /* verilator lint_on UNUSEDPARAM */

  // Where a device address lies in HBM. The IP gives each of 32 pseudo-channels half a gigabyte in a row; here they take
  // turns every 512 bytes. The channel is the exclusive or of all digits (base 32) of the block's number, as the timing
  // model has it (simulator/dram, `channel_hash`), so that strides of powers of two do not fall on one channel.
  function automatic logic [HbmAddrW-1:0] spread(input logic [HbmAddrW-1:0] device);
    logic [24:0] block;
    block = device[33:9];
    return {block[4:0] ^ block[9:5] ^ block[14:10] ^ block[19:15] ^ block[24:20], block[24:5], device[8:0]};
  endfunction

  typedef struct packed {
    logic [63:0] addr;
    logic [7:0]  len;
  } mem_a_t;

  typedef struct packed {
    logic [511:0] data;
    logic [63:0]  strb;
    logic         last;
  } mem_w_t;

  typedef struct packed {
    logic [511:0] data;
    logic [1:0]   resp;
    logic         last;
  } mem_r_t;

  // A piece of a burst: at most 8 beats of 64 bytes, within 512 bytes.
  typedef struct packed {
    logic [HbmAddrW-1:0] addr;
    logic [2:0]          len;
  } piece_t;

  typedef struct packed {
    logic [HbmAddrW-1:0] addr;
    logic [3:0]          len;
  } hbm_a_t;

  typedef struct packed {
    logic [255:0] data;
    logic [31:0]  strb;
    logic         last;
  } hbm_w_t;

  typedef struct packed {
    logic [255:0] data;
    logic [1:0]   resp;
    logic         last;
  } hbm_r_t;

endpackage
