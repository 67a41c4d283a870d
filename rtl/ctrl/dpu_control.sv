// Starts, stops and resets all tiles, keeps the first error, and watches that a running DPU makes progress.
// After an error or RESET all tiles stop; their registers are reset only when no DRAM access is open any more.
// A memory that never answers thus keeps BUSY set, but the registers and the error report stay readable.

module dpu_control #(
  parameter int unsigned Tiles = 1
) (
  input  logic                         clk_i,
  input  logic                         rst_ni,

  // host
  input  logic                         start_i,
  input  logic                         reset_i,
  input  logic [31:0]                  watchdog_i,
  output logic                         busy_o,
  output logic                         done_o,
  output dpu_pkg::report_t             error_o,  // valid: STATUS.ERROR
  output logic [63:0]                  cycles_o,
  output logic                         irq_error_o,

  // tiles
  output logic                         tile_start_o,
  output logic                         tile_stop_o,
  output logic                         tile_rst_no,  // a register: soft reset of the tiles
  input  logic [Tiles-1:0]             tile_busy_i,
  input  logic [Tiles-1:0]             tile_quiet_i,
  input  logic [Tiles-1:0]             tile_progress_i,
  input  dpu_pkg::report_t [Tiles-1:0] tile_fault_i,   // `tile` is filled in here
  input  dpu_pkg::report_t [Tiles-1:0] tile_stuck_i    // what the watchdog reports
);

  import dpu_isa_pkg::*;
  import dpu_pkg::*;

  typedef enum logic [2:0] {
    StIdle,   // nothing runs; the last run, if any, ended well
    StStart,
    StRun,
    StStop,   // after an error: until DRAM is quiet
    StHalt,   // after an error: until RESET
    StDrain,  // RESET: until DRAM is quiet
    StClear   // RESET: tiles in reset
  } state_e;

  localparam int unsigned Settle = 8;  // cycles that DRAM must be quiet: those from a stop to its effect are fewer

  state_e                     state_q, state_d;
  logic [$clog2(Settle)-1:0]  settle_q;
  logic                       settled, done_q, running, expired;
  logic [63:0]                cycles_q;
  logic [31:0]                still_q;
  report_t                    error_q, error_d;
  // Waiver: the tiles' assertions sample their asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  logic                       rst_nq;
  /* verilator lint_on SYNCASYNCNET */

  // The first tile with a fault; without one, the watchdog's report of the first busy tile.
  always_comb begin
    error_d = '0;
    if (expired) begin
      for (int unsigned t = Tiles; t > 0; t--) begin
        if (tile_busy_i[t-1]) begin
          error_d      = tile_stuck_i[t-1];
          error_d.tile = 8'(t - 1);
        end
      end
      error_d.fault.valid   = 1'b1;
      error_d.fault.code    = ErrorWatchdog;
      error_d.fault.address = '0;
    end
    for (int unsigned t = Tiles; t > 0; t--) begin
      if (tile_fault_i[t-1].fault.valid) begin
        error_d      = tile_fault_i[t-1];
        error_d.tile = 8'(t - 1);
      end
    end
  end

  assign running = (state_q == StRun);
  assign expired = running & (watchdog_i != '0) & (still_q >= watchdog_i);
  assign settled = settle_q == $bits(settle_q)'(Settle - 1);

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StIdle:  if (start_i) state_d = StStart;
      StStart: state_d = StRun;
      StRun: begin
        if (error_d.fault.valid) state_d = StStop;
        else if (tile_busy_i == '0) state_d = StIdle;
      end
      StStop:  if (settled) state_d = StHalt;
      StHalt:  state_d = StHalt;
      StDrain: if (settled) state_d = StClear;
      StClear: if (settled) state_d = StIdle;
      default: state_d = StIdle;
    endcase
    if (reset_i && state_q != StDrain && state_q != StClear) state_d = StDrain;
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q  <= StIdle;
      settle_q <= '0;
      done_q   <= 1'b0;
      error_q  <= '0;
      cycles_q <= '0;
      still_q  <= '0;
      rst_nq   <= 1'b0;
    end else begin
      state_q <= state_d;
      rst_nq  <= state_d != StClear;

      if (state_d != state_q || (state_q != StClear && tile_quiet_i != '1)) settle_q <= '0;
      else if (!settled) settle_q <= settle_q + $bits(settle_q)'(1);

      if (state_q == StStart || state_q == StClear) begin
        done_q   <= 1'b0;
        error_q  <= '0;
        cycles_q <= '0;
      end else if (running) begin
        cycles_q <= cycles_q + 64'd1;
        done_q   <= state_d == StIdle;
        if (error_d.fault.valid) error_q <= error_d;
      end

      if (!running || tile_progress_i != '0) still_q <= '0;
      else still_q <= still_q + 32'd1;
    end
  end

  assign busy_o       = (state_q != StIdle) & (state_q != StHalt);
  assign done_o       = done_q;
  assign error_o      = error_q;
  assign cycles_o     = cycles_q;
  assign irq_error_o  = running & error_d.fault.valid;
  assign tile_start_o = state_q == StStart;
  assign tile_stop_o  = (state_q == StStop) | (state_q == StHalt) | (state_q == StDrain);
  assign tile_rst_no  = rst_nq;

endmodule
