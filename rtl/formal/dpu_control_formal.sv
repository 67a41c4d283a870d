// Proof of dpu_control: a fault or the watchdog stops all tiles, RESET always comes through once memory is quiet, START is not lost.
// Tiles are free, but that they report faults only while they run. `quiet` counts cycles in which all ports were quiet.
// So each run ends: DONE, or ERROR and then idle again behind RESET, if tiles end or stop and memory answers.

module dpu_control_formal #(
  parameter int unsigned Tiles = 2
) (
  input logic                         clk_i,
  input logic                         start_i,
  input logic                         reset_i,
  input logic [31:0]                  watchdog_i,
  input logic [Tiles-1:0]             tile_busy_i,
  input logic [Tiles-1:0]             tile_quiet_i,
  input logic [Tiles-1:0]             tile_progress_i,
  input dpu_pkg::report_t [Tiles-1:0] tile_fault_i,
  input dpu_pkg::report_t [Tiles-1:0] tile_stuck_i
);

  logic             rst_ni, busy, done, irq_error, tile_start, tile_stop, tile_rst_n;
  dpu_pkg::report_t error;
  logic [63:0]      cycles;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  dpu_control #(.Tiles(Tiles)) dut (
    .*, .busy_o(busy), .done_o(done), .error_o(error), .cycles_o(cycles), .irq_error_o(irq_error),
    .tile_start_o(tile_start), .tile_stop_o(tile_stop), .tile_rst_no(tile_rst_n)
  );

  // States by number: idle 0, start 1, run 2, stop 3, halt 4, drain 5, clear 6.
  logic [2:0]  state, state_q;
  logic [3:0]  quiet_q, clear_q;  // cycles in this state with quiet ports, cycles of reset
  logic        any_fault, fault_q, reset_q, start_q, busy_q;
  logic [31:0] still_q, watchdog_q;
  logic        expired_q;
  dpu_pkg::report_t error_q;
  assign state     = 3'(dut.state_q);
  assign any_fault = tile_fault_i[0].fault.valid | tile_fault_i[1].fault.valid;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= '0;
      {quiet_q, clear_q} <= '0;
      {fault_q, reset_q, start_q, expired_q} <= '0;
      busy_q  <= 1'b1;
      still_q <= '0;
    end else begin
      state_q   <= state;
      quiet_q   <= (dut.state_d != dut.state_q || tile_quiet_i != '1) ? '0 : quiet_q < 4'd8 ? quiet_q + 4'd1 : quiet_q;
      clear_q   <= state == 3'd6 ? clear_q + 4'd1 : '0;
      fault_q   <= any_fault;
      reset_q   <= reset_i;
      start_q   <= start_i;
      busy_q    <= tile_busy_i != '0;
      still_q   <= (state != 3'd2 || tile_progress_i != '0) ? '0 : still_q + 32'd1;
      expired_q <= state == 3'd2 && watchdog_i != '0 && still_q >= watchdog_i;
    end
  end
  always_ff @(posedge clk_i) error_q <= error;

  always_comb begin
    if (rst_ni) begin
      FaultStops: assert (!(state_q == 3'd2 && (fault_q || expired_q) && !reset_q) ||
                          (state == 3'd3 && error.fault.valid && tile_stop));
      StopHolds: assert (!(state_q == 3'd3 && !reset_q) || state == 3'd3 || state == 3'd4);
      HaltHolds: assert (!(state_q == 3'd4) || state == (reset_q ? 3'd5 : 3'd4));
      ErrorHolds: assert (!(state_q == 3'd3 || state_q == 3'd4) || error == error_q);
      OnlyQuiet: assert (!(state_q == 3'd5 && state == 3'd6) || dut.settle_q == '0);
      StopEnds: assert (!(state == 3'd3 && quiet_q == 4'd8) || dut.settled);
      ResetComes: assert (!(reset_q && state_q != 3'd5 && state_q != 3'd6) || state == 3'd5);
      DrainEnds: assert (!(state == 3'd5 && quiet_q == 4'd8));
      ClearEnds: assert (clear_q <= 4'd8);
      AfterClear: assert (!(state_q == 3'd6 && state != 3'd6) || state == 3'd0);
      TilesReset: assert (tile_rst_n == !(state == 3'd6) || state == 3'd0);
      StopIsSeen: assert (tile_stop == (state == 3'd3 || state == 3'd4 || state == 3'd5));
      StartTaken: assert (!(state_q == 3'd0 && start_q && !reset_q) || state == 3'd1);
      RunEnds: assert (!(state_q == 3'd2 && !busy_q && !fault_q && !expired_q && !reset_q) || (state == 3'd0 && done));
      Busy: assert (busy == (state != 3'd0 && state != 3'd4));
      NoOtherState: assert (state <= 3'd6);
      WatchdogBound: assert (!(state == 3'd2 && watchdog_i != '0 && still_q >= watchdog_i) || irq_error);
      // for induction
      Still: assert (dut.still_q == still_q);
      Settle: assert (!(state == 3'd3 || state == 3'd4 || state == 3'd5) ||
                      4'(dut.settle_q) == (quiet_q > 4'd7 ? 4'd7 : quiet_q));
      Clear: assert (state != 3'd6 || 4'(dut.settle_q) == (clear_q > 4'd7 ? 4'd7 : clear_q));
      ClearZero: assert (state == 3'd6 || clear_q <= 4'd8);
      CoverDone: cover (done && state == 3'd0);
      CoverWatchdog: cover (state == 3'd4 && error.fault.code == dpu_isa_pkg::ErrorWatchdog && watchdog_i == 32'd2);
      CoverThrough: cover (state_q == 3'd6 && state == 3'd0);
      CoverAgain: cover (state == 3'd1 && state_q == 3'd0 && done);
    end
  end

endmodule
